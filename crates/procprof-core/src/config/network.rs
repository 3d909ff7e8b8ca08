//! Ranges of addresses: an address, or a network as `10.0.0.0/8`.

use std::fmt;
use std::net::IpAddr;
use std::str::FromStr;

/// A range of addresses of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    address: IpAddr,
    /// Leading bits that its addresses have in common.
    bits: u32,
}

/// The bits of an address, at the left of 128.
fn left_aligned(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (u128::from(address.to_bits()) << 96, 32),
        IpAddr::V6(address) => (address.to_bits(), 128),
    }
}

impl Network {
    /// Whether an address is in it; an IPv4 address within IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let ((own, own_width), (other, width)) = (left_aligned(self.address), left_aligned(address.to_canonical()));
        let differing = own ^ other;
        own_width == width && (self.bits == 0 || differing.leading_zeros() >= self.bits)
    }
}

impl FromStr for Network {
    type Err = String;

    fn from_str(text: &str) -> Result<Network, String> {
        let wrong = || format!("{text:?} is neither an address nor a network such as 10.0.0.0/8 or fd00::/8");
        let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
        let address: IpAddr = address.parse().map_err(|_| wrong())?;
        let (own, width) = left_aligned(address);
        let bits: u32 = bits.map_or(Ok(width), str::parse).map_err(|_| wrong())?;
        if bits > width {
            return Err(wrong());
        }
        // The part that tells addresses of a network apart must be zero: otherwise one machine was meant, or a typing
        // error.
        if own.checked_shl(bits).unwrap_or(0) != 0 {
            return Err(format!("{text:?}: the address has bits set behind the first {bits}"));
        }
        Ok(Network { address, bits })
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match left_aligned(self.address) {
            (_, width) if width == self.bits => write!(f, "{}", self.address),
            _ => write!(f, "{}/{}", self.address, self.bits),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_a_network_by_its_first_bits() {
        for (network, inside, outside) in [
            ("127.0.0.1", "127.0.0.1", "127.0.0.2"),
            ("10.0.0.0/8", "10.255.0.1", "11.0.0.1"),
            ("10.0.0.0/8", "::ffff:10.1.2.3", "::a00:1"),
            ("0.0.0.0/0", "203.0.113.9", "::1"),
            ("::/0", "2001:db8::1", "10.0.0.1"),
            ("fd00::/8", "fd12::9", "fe80::1"),
            ("::1", "::1", "::2"),
            ("192.0.2.128/25", "192.0.2.200", "192.0.2.127"),
        ] {
            let parsed: Network = network.parse().unwrap();
            assert_eq!(parsed.to_string(), network);
            assert!(parsed.contains(inside.parse().unwrap()), "{network} {inside}");
            assert!(!parsed.contains(outside.parse().unwrap()), "{network} {outside}");
        }
        for wrong in ["", "localhost", "10.0.0.0/33", "10.0.0.0/-1", "10.0.0.1/8", "::1/129", "10.0.0.0/", "1.2.3.4:80"]
        {
            assert!(wrong.parse::<Network>().is_err(), "{wrong}");
        }
    }
}
