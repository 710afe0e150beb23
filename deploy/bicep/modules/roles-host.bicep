// What the Functions host needs: its own storage account, and to be heard.
param principalId string
param storageAccountName string
param applicationInsightsName string

var storageRoles = {
  // Leases of timers, keys of functions, the package, the status of schedules.
  'Storage Blob Data Owner': 'b7e6dc6d-f1e8-4753-8033-0f276bb0955b'
  // Queue triggers and outputs of relays.
  'Storage Queue Data Contributor': '974c5e8b-45b9-4653-ba55-5f855dd0fb88'
  // What the host notes down about its own faults.
  'Storage Table Data Contributor': '0a9a7e1f-b9d0-4cc4-a60d-0319b160aaa3'
}

var telemetryRoles = {
  'Monitoring Metrics Publisher': '3913510d-42f4-4e42-8a64-420c390055eb'
}

resource account 'Microsoft.Storage/storageAccounts@2024-01-01' existing = {
  name: storageAccountName
}

resource component 'Microsoft.Insights/components@2020-02-02' existing = {
  name: applicationInsightsName
}

resource onAccount 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for role in items(storageRoles): {
    name: guid(account.id, principalId, role.value)
    scope: account
    properties: {
      principalId: principalId
      principalType: 'ServicePrincipal'
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', role.value)
    }
  }
]

resource onComponent 'Microsoft.Authorization/roleAssignments@2022-04-01' = [
  for role in items(telemetryRoles): {
    name: guid(component.id, principalId, role.value)
    scope: component
    properties: {
      principalId: principalId
      principalType: 'ServicePrincipal'
      roleDefinitionId: subscriptionResourceId('Microsoft.Authorization/roleDefinitions', role.value)
    }
  }
]
