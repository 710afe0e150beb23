//! Every form of a connection, and every way to get it wrong.

use super::*;

const KEY: &str = "Y2FuYXJ5"; // "canary"

fn settings(pairs: &[(&str, &str)]) -> Settings {
    pairs.iter().copied().collect()
}

fn resolve(pairs: &[(&str, &str)], name: &str) -> Result<StorageConnection, ConnectionFault> {
    StorageConnection::resolve(&settings(pairs), name)
}

/// Where the blobs are, and by which right.
fn found(pairs: &[(&str, &str)], name: &str) -> (String, String) {
    let connection = resolve(pairs, name).unwrap();
    let endpoint = connection.service(Service::Blob).unwrap();
    let access = match endpoint.access() {
        Access::SharedKey { account, .. } => format!("key of {account}"),
        Access::Sas(_) => "signature".to_owned(),
        Access::Identity(_) => "identity".to_owned(),
    };
    (endpoint.url.to_string(), access)
}

#[test]
fn every_form_of_a_connection_string_is_understood() {
    for (value, url, access) in [
        (
            "DefaultEndpointsProtocol=https;AccountName=shop;AccountKey=Y2FuYXJ5;EndpointSuffix=core.windows.net",
            "https://shop.blob.core.windows.net/",
            "key of shop",
        ),
        (
            " accountname = shop ; ACCOUNTKEY = Y2FuYXJ5 ; ",
            "https://shop.blob.core.windows.net/",
            "key of shop",
        ),
        (
            "AccountName=shop;AccountKey=YQ==;EndpointSuffix=core.chinacloudapi.cn",
            "https://shop.blob.core.chinacloudapi.cn/",
            "key of shop",
        ),
        (
            "AccountName=dev;AccountKey=YQ==;BlobEndpoint=http://azurite:10000/dev/",
            "http://azurite:10000/dev",
            "key of dev",
        ),
        (
            "BlobEndpoint=https://shop.blob.core.windows.net;SharedAccessSignature=sv=1&sig=canary%3D",
            "https://shop.blob.core.windows.net/",
            "signature",
        ),
        (
            "AccountName=shop;SharedAccessSignature=?sv=1&sig=canary",
            "https://shop.blob.core.windows.net/",
            "signature",
        ),
        (
            "UseDevelopmentStorage=true",
            "http://127.0.0.1:10000/devstoreaccount1",
            "key of devstoreaccount1",
        ),
        (
            "usedevelopmentstorage=TRUE;DevelopmentStorageProxyUri=http://azurite",
            "http://azurite:10000/devstoreaccount1",
            "key of devstoreaccount1",
        ),
    ] {
        let expected = (url.to_owned(), access.to_owned());
        assert_eq!(found(&[("S", value)], "S"), expected, "{value}");
    }
}

#[test]
fn the_hosts_order_of_names_is_kept() {
    let at = |host: &str| format!("AccountName=a-b;AccountKey=YQ==;BlobEndpoint=https://{host}");
    let (one, two) = (&at("one"), &at("two"));
    for (pairs, name, expected) in [
        (vec![("NAME", one)], "NAME", "https://one/"),
        (vec![("name", one)], "NAME", "https://one/"),
        (
            vec![("AzureWebJobsNAME", one), ("NAME", two)],
            "NAME",
            "https://one/",
        ),
        (
            vec![("AzureWebJobsStorage", one)],
            "Storage",
            "https://one/",
        ),
        (
            vec![("AzureWebJobsStorage", one)],
            "AzureWebJobsStorage",
            "https://one/",
        ),
        (
            vec![("CUSTOMCONNSTR_NAME", one), ("NAME", two)],
            "NAME",
            "https://one/",
        ),
        (
            vec![("ConnectionStrings__NAME", one), ("NAME", two)],
            "NAME",
            "https://one/",
        ),
        (
            vec![("AzureWebJobsNAME", &" ".to_owned()), ("NAME", two)],
            "NAME",
            "https://two/",
        ),
    ] {
        let pairs: Vec<(&str, &str)> = pairs.iter().map(|(n, v)| (*n, v.as_str())).collect();
        assert_eq!(found(&pairs, name).0, expected, "{:?}", settings(&pairs));
    }
    // A plain value wins over what stands below the same name.
    let both = [("NAME", one.as_str()), ("NAME__accountName", "other")];
    assert_eq!(found(&both, "NAME").0, "https://one/");
    // What stands below the prefixed name wins over the plain one.
    let prefixed = [
        ("AzureWebJobsNAME__accountName", "other"),
        ("AzureWebJobsNAME__credential", "managedidentity"),
        ("NAME", one.as_str()),
    ];
    assert_eq!(
        found(&prefixed, "NAME").0,
        "https://other.blob.core.windows.net/"
    );
}

#[test]
fn an_identity_is_told_by_the_settings_below_the_name() {
    let ask = ("N__credential", "ManagedIdentity");
    let here = [
        ("IDENTITY_ENDPOINT", "http://x"),
        ("IDENTITY_HEADER", "canary"),
    ];
    let identity = |url: &str| (url.to_owned(), "identity".to_owned());
    for (pairs, url) in [
        (
            vec![("N__accountName", "shop"), ask],
            "https://shop.blob.core.windows.net/",
        ),
        (
            vec![("n:ACCOUNTNAME", "shop"), ask],
            "https://shop.blob.core.windows.net/",
        ),
        (
            vec![
                ("N__blobServiceUri", "https://my.host/"),
                ("N__accountName", "shop"),
                ask,
            ],
            "https://my.host/",
        ),
        (
            vec![("N__serviceUri", "https://shop.blob.core.windows.net"), ask],
            "https://shop.blob.core.windows.net/",
        ),
        (
            vec![("N__accountName", "shop"), here[0], here[1]],
            "https://shop.blob.core.windows.net/",
        ),
        (
            vec![
                ("N__accountName", "shop"),
                ("N__clientId", "me"),
                here[0],
                here[1],
            ],
            "https://shop.blob.core.windows.net/",
        ),
        (
            vec![
                ("N__accountName", "shop"),
                ("N__tenantId", "t"),
                ("N__clientId", "c"),
                ("N__clientSecret", "canary"),
            ],
            "https://shop.blob.core.windows.net/",
        ),
    ] {
        assert_eq!(found(&pairs, "N"), identity(url), "{:?}", settings(&pairs));
    }
    let queue = resolve(&[("N__queueServiceUri", "https://q.host"), ask], "N").unwrap();
    let endpoint = queue.service(Service::Queue).unwrap();
    assert_eq!(endpoint.host(), "q.host");
    let fault = queue.service(Service::Blob).unwrap_err();
    assert_eq!(
        fault.to_string(),
        "the connection has no blob endpoint: N; set N__accountName or N__blobServiceUri"
    );
}

#[test]
fn faults_name_settings_and_what_to_set_and_show_no_value() {
    let vault = "@Microsoft.KeyVault(SecretUri=https://canary)";
    let ask = ("N__credential", "managedidentity");
    for (pairs, expected) in [
        (
            vec![],
            "no app setting has this name: N; set N to the connection string",
        ),
        (
            vec![("N", "  ")],
            "no app setting has this name: N; set N to the connection string",
        ),
        (
            vec![("N", vault)],
            "the app setting is a Key Vault reference that the platform did not resolve: N;",
        ),
        (
            vec![("N__accountName", vault), ask],
            "the app setting is a Key Vault reference that the platform did not resolve: N__accountName;",
        ),
        (
            vec![("N", "canary")],
            "is not a connection string of a storage account: N; copy",
        ),
        (
            vec![("N", "AccountName=a;Canary=x")],
            "the connection string has a part that is not known for storage accounts: N;",
        ),
        (
            vec![("N", "AccountName=a;AccountName=canary")],
            "the connection string names a part twice: N;",
        ),
        (
            vec![("N", "AccountKey=Y2FuYXJ5")],
            "the connection string has no AccountName: N;",
        ),
        (
            vec![("N", "AccountName=shop;AccountKey=canary!")],
            "AccountKey is not base64 in the connection string: N;",
        ),
        (
            vec![("N", "AccountName=canary.x/;AccountKey=YQ==")],
            "AccountName is not the name of a storage account in the connection string: N;",
        ),
        (
            vec![("N", "AccountName=shop")],
            "the connection string has neither AccountKey nor SharedAccessSignature: N; add one of them; \
             to use the app's identity, remove N and set N__accountName",
        ),
        (
            vec![("N", "AccountName=shop;AccountKey=")],
            "the connection string has neither AccountKey nor",
        ),
        (
            vec![(
                "N",
                "AccountName=shop;AccountKey=Y2FuYXJ5;SharedAccessSignature=sig=canary",
            )],
            "the connection string has both AccountKey and SharedAccessSignature: N; keep one",
        ),
        (
            vec![("N", "SharedAccessSignature=sig=canary")],
            "the connection string names no account and no endpoint: N;",
        ),
        (
            vec![(
                "N",
                "BlobEndpoint=http://canary.example;SharedAccessSignature=sig=canary",
            )],
            "the connection string sends a shared access signature over plain http: N; use https",
        ),
        (
            vec![(
                "N",
                "AccountName=shop;AccountKey=YQ==;BlobEndpoint=https://x/?sig=canary",
            )],
            "BlobEndpoint is not an address in the connection string: N;",
        ),
        (
            vec![(
                "N",
                "AccountName=shop;AccountKey=YQ==;EndpointSuffix=canary/x",
            )],
            "DefaultEndpointsProtocol or EndpointSuffix is not legal in the connection string: N;",
        ),
        (
            vec![("N", "UseDevelopmentStorage=canary")],
            "UseDevelopmentStorage may only be true in the connection string: N;",
        ),
        (
            vec![(
                "N",
                "UseDevelopmentStorage=true;DevelopmentStorageProxyUri=canary",
            )],
            "DevelopmentStorageProxyUri is not an address",
        ),
        (
            vec![("N__accountName", "Canary"), ask],
            "is not the name of a storage account: N__accountName;",
        ),
        (
            vec![("N__blobServiceUri", "http://canary.example"), ask],
            "is not an https address of a service, or has a query: N__blobServiceUri;",
        ),
        (
            vec![("N__blobServiceUri", "https://x/?sig=canary"), ask],
            "is not an https address of a service, or has a query: N__blobServiceUri;",
        ),
        (
            vec![("N__colour", "canary"), ask],
            "the settings below the name tell of no storage account: N; set N__accountName",
        ),
        (
            vec![("N__accountName", "shop")],
            "no identity is known for the connection, and this is not an app with a managed identity: N; \
             on Azure turn on the app's identity, or set N__credential to managedidentity; elsewhere set \
             N__tenantId, N__clientId and N__clientSecret, or put a connection string into N",
        ),
        (
            vec![("N__accountName", "shop"), ("N__credential", "canary")],
            "is not a credential that is known here: N__credential; write managedidentity",
        ),
        (
            vec![("N__accountName", "shop"), ("N__clientSecret", "canary")],
            "a client secret needs three settings, and not all are there: N; set N__tenantId and N__clientId",
        ),
        (
            vec![
                ("N__accountName", "shop"),
                ("N__managedIdentityResourceId", "canary"),
                ask,
            ],
            "a user-assigned identity is named by its client id here: N__managedIdentityResourceId; set N__clientId",
        ),
        (
            vec![
                ("N__accountName", "shop"),
                ("N__tenantId", "canary/x"),
                ("N__clientId", "c"),
                ("N__clientSecret", "canary"),
            ],
            "is not the id of a tenant: N__tenantId;",
        ),
    ] {
        let fault = resolve(&pairs, "N").unwrap_err().to_string();
        assert!(fault.starts_with(expected), "{fault}\n{expected}");
        assert!(!fault.to_lowercase().contains("canary"), "{fault}");
        assert!(!fault.contains(KEY), "{fault}");
    }
}

#[test]
fn a_connection_cannot_be_printed_beyond_its_name() {
    let signature = "AccountName=shop;SharedAccessSignature=sv=1&sig=canary";
    let key = "AccountName=shop;AccountKey=Y2FuYXJ5";
    let secret = [
        ("C__accountName", "shop"),
        ("C__tenantId", "t"),
        ("C__clientId", "c"),
        ("C__clientSecret", "canary"),
    ];
    for (pairs, name) in [
        (&[("A", signature)][..], "A"),
        (&[("B", key)][..], "B"),
        (&secret[..], "C"),
    ] {
        let connection = resolve(pairs, name).unwrap();
        let endpoint = connection.service(Service::Blob).unwrap();
        let access = endpoint.access();
        let printed = format!(
            "{connection:?} {endpoint:#?} {access:#?} {}",
            endpoint.host()
        );
        assert!(
            !printed.contains("canary") && !printed.contains(KEY),
            "{printed}"
        );
    }
    // The client that calls it gets the signature with the address.
    let endpoint = resolve(&[("A", signature)], "A").unwrap();
    let endpoint = endpoint.service(Service::Blob).unwrap();
    assert_eq!(
        endpoint.address(["db-state", "a b", "x.json"]).as_str(),
        "https://shop.blob.core.windows.net/db-state/a%20b/x.json?sv=1&sig=canary"
    );
}
