// What dbtick needs: one container, and to put messages into the queues that pollers name. Nothing of the account.
param principalId string
param storageAccountName string
param container string
param queues array

var containerRoles = {
  // Documents are read, written by compare-and-swap, listed and deleted.
  'Storage Blob Data Contributor': 'ba92f5b4-2d11-453d-a403-e96b0029c9fe'
}

var queueRoles = {
  // Messages are put, and never read.
  'Storage Queue Data Message Sender': 'c6a89b2d-59bc-44d0-9896-0f6e12d7b80a'
}

resource state 'Microsoft.Storage/storageAccounts/blobServices/containers@2024-01-01' existing = {
  name: '${storageAccountName}/default/${container}'
}

resource sinks 'Microsoft.Storage/storageAccounts/queueServices/queues@2024-01-01' existing = [
  for queue in queues: {
    name: '${storageAccountName}/default/${queue}'
  }
]

resource onContainer 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for role in items(containerRoles): {
    name: guid(state.id, principalId, role.value)
    scope: state
    properties: {
      principalId: principalId
      principalType: 'ServicePrincipal'
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', role.value)
    }
  }
]

resource onQueues 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for (queue, index) in queues: {
    name: guid(sinks[index].id, principalId, queueRoles['Storage Queue Data Message Sender'])
    scope: sinks[index]
    properties: {
      principalId: principalId
      principalType: 'ServicePrincipal'
      roleDefinitionId: subscriptionResourceId(
        'Microsoft.Authorization/roleDefinitions',
        queueRoles['Storage Queue Data Message Sender']
      )
    }
  }
]
