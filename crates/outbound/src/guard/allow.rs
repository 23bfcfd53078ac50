//! The list of non-public names and addresses to which calls are permitted.

use std::net::IpAddr;

use isomer_service_kit::config::ConfigError;

/// Parsed names and networks.
#[derive(Debug, Default)]
pub(super) struct Allow {
    hosts: Vec<String>,
    /// Suffixes of names, with their leading dot.
    endings: Vec<String>,
    networks: Vec<Network>,
}

impl Allow {
    pub(super) fn read(entries: &[String]) -> Result<Self, ConfigError> {
        let mut allow = Self::default();
        for (index, entry) in entries.iter().enumerate() {
            let entry = entry.trim().to_ascii_lowercase();
            if let Some(network) = Network::read(&entry) {
                allow.networks.push(network);
                continue;
            }
            let (name, list) = match entry.strip_prefix('*') {
                Some(ending) => (ending.strip_prefix('.').unwrap_or_default(), &mut allow.endings),
                None => (entry.as_str(), &mut allow.hosts),
            };
            // A port, a scheme and an invalid mask are common mistakes.
            let fine = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
            if name.is_empty() || !name.chars().all(fine) {
                return Err(ConfigError::new(
                    format!("allow[{index}]"),
                    format!("{entry:?} is not a host, address or network"),
                    "give e.g. embed.internal, *.svc.cluster.local, 127.0.0.1, 10.0.0.0/8, fd00::/8; without scheme and port",
                ));
            }
            let dotted = entry.starts_with('*');
            list.push(if dotted { format!(".{name}") } else { name.to_owned() });
        }
        Ok(allow)
    }

    pub(super) fn covers(&self, host: &str, address: IpAddr) -> bool {
        let host = host.trim_end_matches('.').to_ascii_lowercase();
        self.hosts.contains(&host)
            || self.endings.iter().any(|ending| host.ends_with(ending.as_str()))
            || self.networks.iter().any(|network| network.contains(address))
    }
}

/// An address and the number of its leading bits that count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Network {
    first: IpAddr,
    bits: u32,
}

impl Network {
    /// Parses `10.0.0.0/8`, or an address, which is a network of one address.
    fn read(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits)),
            None => (text, None),
        };
        let written: IpAddr = address.trim_start_matches('[').trim_end_matches(']').parse().ok()?;
        let most: u32 = if written.is_ipv4() { 32 } else { 128 };
        let bits = match bits {
            None => most,
            Some(bits) => bits.parse().ok().filter(|bits| *bits <= most)?,
        };
        let first = written.to_canonical();
        // ::ffff:10.0.0.0/104 is equivalent to 10.0.0.0/8.
        let bits = if first.is_ipv4() && written.is_ipv6() {
            bits.checked_sub(96)?
        } else {
            bits
        };
        Some(Self { first, bits })
    }

    fn contains(&self, address: IpAddr) -> bool {
        let same = |a: u128, b: u128, width: u32| self.bits == 0 || (a ^ b) >> (width - self.bits) == 0;
        match (self.first, address.to_canonical()) {
            (IpAddr::V4(a), IpAddr::V4(b)) => same(a.to_bits().into(), b.to_bits().into(), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => same(a.to_bits(), b.to_bits(), 128),
            _ => false,
        }
    }
}
