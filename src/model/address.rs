//! Which addresses are never a receiver (S3): the one judge for those that are written out and for
//! those that a name resolves to.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// What a webhook may be connected to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Network {
    /// Private addresses too: receivers live in virtual networks.
    Any,
    Public,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Forbidden {
    #[error("a link-local or metadata address, which is never a receiver")]
    Metadata,
    #[error("a private address, which deny_private refuses")]
    Private,
}

impl Network {
    pub fn judge(self, address: IpAddr) -> Result<(), Forbidden> {
        let address = address.to_canonical();
        if is_metadata(address) {
            return Err(Forbidden::Metadata);
        }
        if self == Self::Public && is_private(address) {
            return Err(Forbidden::Private);
        }
        Ok(())
    }
}

fn is_metadata(address: IpAddr) -> bool {
    const WIRE_SERVER: Ipv4Addr = Ipv4Addr::new(168, 63, 129, 16);
    match address {
        IpAddr::V4(v4) => v4.is_link_local() || v4 == WIRE_SERVER,
        IpAddr::V6(v6) => v6.is_unicast_link_local() || is_metadata_v6(v6),
    }
}

/// fd00:ec2::/32
fn is_metadata_v6(address: Ipv6Addr) -> bool {
    matches!(address.segments(), [0xfd00, 0x0ec2, ..])
}

/// This machine, and whatever does not route on the internet.
fn is_private(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => {
            let [first, second, ..] = v4.octets();
            let shared = first == 100 && (64..128).contains(&second);
            v4.is_private() || v4.is_loopback() || first == 0 || shared
        }
        IpAddr::V6(v6) => v6.is_unique_local() || v6.is_loopback() || v6.is_unspecified(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metadata_is_never_a_receiver_and_private_addresses_are_unless_denied() {
        use Forbidden::{Metadata, Private};
        for (address, any, public) in [
            ("1.1.1.1", Ok(()), Ok(())),
            ("2606:4700::1111", Ok(()), Ok(())),
            ("169.254.169.254", Err(Metadata), Err(Metadata)),
            ("169.254.0.1", Err(Metadata), Err(Metadata)),
            ("168.63.129.16", Err(Metadata), Err(Metadata)),
            ("168.63.129.17", Ok(()), Ok(())),
            ("fe80::1", Err(Metadata), Err(Metadata)),
            ("febf::1", Err(Metadata), Err(Metadata)),
            ("fd00:ec2::254", Err(Metadata), Err(Metadata)),
            ("::ffff:169.254.169.254", Err(Metadata), Err(Metadata)),
            ("::ffff:168.63.129.16", Err(Metadata), Err(Metadata)),
            ("10.0.0.4", Ok(()), Err(Private)),
            ("172.31.255.255", Ok(()), Err(Private)),
            ("172.32.0.1", Ok(()), Ok(())),
            ("192.168.1.1", Ok(()), Err(Private)),
            ("::ffff:192.168.1.1", Ok(()), Err(Private)),
            ("100.64.0.1", Ok(()), Err(Private)),
            ("100.128.0.1", Ok(()), Ok(())),
            ("127.0.0.1", Ok(()), Err(Private)),
            ("0.0.0.0", Ok(()), Err(Private)),
            ("::1", Ok(()), Err(Private)),
            ("::", Ok(()), Err(Private)),
            ("fd00::1", Ok(()), Err(Private)),
        ] {
            let parsed: IpAddr = address.parse().unwrap();
            assert_eq!(Network::Any.judge(parsed), any, "{address}");
            assert_eq!(Network::Public.judge(parsed), public, "{address}");
        }
    }
}
