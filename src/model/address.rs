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
    #[error("the identity endpoint of the platform, which is never a receiver")]
    Identity,
}

/// Whether what is at the one is at the other too: a machine has many addresses for itself.
#[must_use]
pub fn is_same_place(one: IpAddr, other: IpAddr) -> bool {
    let (one, other) = (unwrapped(one), unwrapped(other));
    one == other || is_this_machine(one) && is_this_machine(other)
}

/// A connection to the unspecified address is one to this machine.
fn is_this_machine(address: IpAddr) -> bool {
    address.is_loopback() || address.is_unspecified()
}

impl Network {
    pub fn judge(self, address: IpAddr) -> Result<(), Forbidden> {
        let address = unwrapped(address);
        if is_metadata(address) {
            return Err(Forbidden::Metadata);
        }
        if self == Self::Public && is_private(address) {
            return Err(Forbidden::Private);
        }
        Ok(())
    }
}

/// IPv4 inside of IPv6 leads where it would lead by itself: mapped, translated (NAT64), tunnelled (6to4), or in
/// the form that was given up.
fn unwrapped(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address.to_canonical() else {
        return address.to_canonical();
    };
    let (high, low) = match v6.segments() {
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] | [0x64, 0xff9b, 1, .., high, low] => (high, low),
        [0x2002, high, low, ..] => (high, low),
        [0, 0, 0, 0, 0, 0, high, low] if high != 0 => (high, low),
        _ => return address,
    };
    let [[a, b], [c, d]] = [high.to_be_bytes(), low.to_be_bytes()];
    IpAddr::V4(Ipv4Addr::new(a, b, c, d))
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
            let [first, second, third, _] = v4.octets();
            let shared = first == 100 && (64..128).contains(&second);
            let special = matches!([first, second, third], [192, 0, 0] | [198, 18 | 19, _]);
            // From 224 on: many receivers at once, or nobody.
            let none = first == 0 || first >= 224;
            v4.is_private() || v4.is_loopback() || shared || special || none
        }
        IpAddr::V6(v6) => {
            let site_local = v6.segments()[0] & 0xffc0 == 0xfec0;
            let this_machine = v6.is_loopback() || v6.is_unspecified();
            v6.is_unique_local() || site_local || this_machine || v6.is_multicast()
        }
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
            ("64:ff9b::a9fe:a9fe", Err(Metadata), Err(Metadata)),
            ("64:ff9b::a83f:8110", Err(Metadata), Err(Metadata)),
            ("64:ff9b:1::a9fe:a9fe", Err(Metadata), Err(Metadata)),
            ("64:ff9b:1:ffff::a9fe:a9fe", Err(Metadata), Err(Metadata)),
            ("64:ff9b::101:101", Ok(()), Ok(())),
            ("64:ff9b::a00:4", Ok(()), Err(Private)),
            ("2002:a9fe:a9fe::1", Err(Metadata), Err(Metadata)),
            ("2002:c0a8:101::1", Ok(()), Err(Private)),
            ("::169.254.169.254", Err(Metadata), Err(Metadata)),
            ("::10.0.0.4", Ok(()), Err(Private)),
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
            ("fec0::1", Ok(()), Err(Private)),
            ("ff02::1", Ok(()), Err(Private)),
            ("192.0.0.192", Ok(()), Err(Private)),
            ("192.0.1.1", Ok(()), Ok(())),
            ("198.19.0.1", Ok(()), Err(Private)),
            ("198.20.0.1", Ok(()), Ok(())),
            ("224.0.0.1", Ok(()), Err(Private)),
            ("255.255.255.255", Ok(()), Err(Private)),
        ] {
            let parsed: IpAddr = address.parse().unwrap();
            assert_eq!(Network::Any.judge(parsed), any, "{address}");
            assert_eq!(Network::Public.judge(parsed), public, "{address}");
        }
    }

    #[test]
    fn a_machine_is_one_place_under_all_its_own_addresses() {
        for (one, other, same) in [
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.9.9.9", true),
            ("127.0.0.1", "::1", true),
            ("127.0.0.1", "::ffff:127.0.0.1", true),
            ("127.0.0.1", "0.0.0.0", true),
            ("127.0.0.1", "::", true),
            ("10.0.0.4", "::ffff:10.0.0.4", true),
            ("10.0.0.4", "10.0.0.5", false),
            ("127.0.0.1", "10.0.0.4", false),
        ] {
            let [one, other]: [IpAddr; 2] = [one, other].map(|text| text.parse().unwrap());
            assert_eq!(is_same_place(one, other), same, "{one} {other}");
        }
    }
}
