// What dbtick keeps and writes to. They are made here, because the roles of dbtick do not let it make them.
param storageAccountName string
param container string
param queues array

resource account 'Microsoft.Storage/storageAccounts@2024-01-01' existing = {
  name: storageAccountName

  resource blobs 'blobServices' existing = {
    name: 'default'
  }

  resource queueService 'queueServices' existing = {
    name: 'default'
  }
}

resource state 'Microsoft.Storage/storageAccounts/blobServices/containers@2024-01-01' = {
  parent: account::blobs
  name: container
}

resource sinks 'Microsoft.Storage/storageAccounts/queueServices/queues@2024-01-01' = [
  for queue in queues: {
    parent: account::queueService
    name: queue
  }
]

output storageAccountName string = account.name
output container string = state.name
