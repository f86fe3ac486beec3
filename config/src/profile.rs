//! Profiles of emulated devices: the delays of a published device, put around real I/O.

use crate::syntax::split_words;

/// Delays and bandwidths of a device. Times in nanoseconds, bandwidths in bytes per second.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceProfile {
    /// What `emulate` names.
    pub name: String,
    /// Until the first byte of a read.
    pub read_ns: u64,
    /// Until the first byte of a write, under `write_through`.
    pub write_ns: u64,
    /// For each discontiguous run that a sync writes.
    pub position_ns: u64,
    /// Fixed cost of a sync, in addition to the data.
    pub sync_ns: u64,
    /// Bandwidth of reads.
    pub read_bytes_per_s: u64,
    /// Bandwidth of writes.
    pub write_bytes_per_s: u64,
    /// Reads at a time; with 1 they wait for writes and syncs too.
    pub channels: usize,
    /// Written bytes that may wait for a sync.
    pub cache_bytes: u64,
    /// Smallest transfer.
    pub unit_bytes: u64,
    /// Every write is sent to the medium.
    pub write_through: bool,
}

/// The built-in profiles; a test parses them.
const BUILT_IN: &str = include_str!("../profiles.conf");

/// Bounds of a number in a profile: none is 0 where one divides by it.
const NUMBER_MAX: f64 = 1e12;

impl DeviceProfile {
    /// Parses the profiles of a file: lines `profile NAME KEY VALUE ...`, all keys, and comments.
    ///
    /// # Errors
    /// An invalid line, with its number.
    pub fn read_all(text: &str) -> Result<Vec<DeviceProfile>, String> {
        let mut profiles: Vec<DeviceProfile> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            if line.trim_start().starts_with('#') || line.trim().is_empty() {
                continue;
            }
            let profile =
                Self::read(line).map_err(|reason| format!("line {}: {reason}", index + 1))?;
            profiles.retain(|other| other.name != profile.name);
            profiles.push(profile);
        }
        Ok(profiles)
    }

    /// The built-in profiles.
    pub fn built_in() -> Vec<DeviceProfile> {
        Self::read_all(BUILT_IN).unwrap_or_default()
    }

    fn read(line: &str) -> Result<DeviceProfile, String> {
        let words = split_words(line.as_bytes()).map_err(|_| "unbalanced quotes")?;
        let text = |word: &Vec<u8>| String::from_utf8_lossy(word).into_owned();
        let words: Vec<String> = words.iter().map(text).collect();
        let [first, name, pairs @ ..] = words.as_slice() else {
            return Err("profile NAME KEY VALUE ...".into());
        };
        if first != "profile" || pairs.len() % 2 != 0 {
            return Err("profile NAME KEY VALUE ...".into());
        }
        let value = |key: &str| -> Result<&str, String> {
            let mut found = pairs.chunks(2).filter(|pair| pair[0] == key);
            match (found.next(), found.next()) {
                (Some(pair), None) => Ok(&pair[1]),
                (None, _) => Err(format!("{key} is missing")),
                _ => Err(format!("{key} is given twice")),
            }
        };
        let number = |key: &str, min: f64| -> Result<f64, String> {
            let number: f64 = value(key)?.parse().map_err(|_| format!("{key} is no number"))?;
            if (min..=NUMBER_MAX).contains(&number) {
                Ok(number)
            } else {
                Err(format!("{key} must be between {min} and {NUMBER_MAX:e}"))
            }
        };
        let ns = |key| number(key, 0.0).map(|us| (us * 1000.0) as u64);
        let profile = DeviceProfile {
            name: name.clone(),
            read_ns: ns("read-us")?,
            write_ns: ns("write-us")?,
            position_ns: ns("position-us")?,
            sync_ns: ns("sync-us")?,
            read_bytes_per_s: (number("read-mb-s", 0.001)? * 1e6) as u64,
            write_bytes_per_s: (number("write-mb-s", 0.001)? * 1e6) as u64,
            channels: number("channels", 1.0)?.min(4096.0) as usize,
            cache_bytes: number("cache-bytes", 0.0)? as u64,
            unit_bytes: number("unit-bytes", 1.0)? as u64,
            write_through: match value("write-through")? {
                "yes" => true,
                "no" => false,
                _ => return Err("write-through is yes or no".into()),
            },
        };
        const KEYS: usize = 10;
        if pairs.len() / 2 > KEYS {
            return Err("a key that is not known".into());
        }
        Ok(profile)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn built_in_profiles_are_read() {
        let profiles = DeviceProfile::read_all(BUILT_IN).unwrap();
        let names: Vec<&str> = profiles.iter().map(|profile| profile.name.as_str()).collect();
        assert_eq!(
            names,
            ["hdd", "sata-ssd", "nvme", "nvram", "optane-pmem", "hdd-7200.7", "slc-nand"]
        );
        assert_eq!((profiles[0].read_ns, profiles[0].channels), (12_670_000, 1));
        assert_eq!((profiles[4].read_ns, profiles[4].write_bytes_per_s), (305, 3_000_000_000));
        assert!(profiles[4].write_through && !profiles[0].write_through);
    }

    #[test]
    fn what_is_wrong_with_a_line_is_said() {
        let good = BUILT_IN.lines().find(|line| line.starts_with("profile hdd")).unwrap();
        for (from, to, reason) in [
            ("read-us 12670 ", "", "read-us is missing"),
            ("read-us 12670", "read-us x", "read-us is no number"),
            ("read-mb-s 150", "read-mb-s 0", "read-mb-s must be between"),
            ("channels 1", "channels 1 channels 2", "channels is given twice"),
            ("write-through no", "write-through maybe", "write-through is yes or no"),
            ("write-through no", "write-through no colour red", "not known"),
            ("profile hdd", "device hdd", "profile NAME"),
        ] {
            let error = DeviceProfile::read_all(&good.replace(from, to)).unwrap_err();
            assert!(error.starts_with("line 1: ") && error.contains(reason), "{to}: {error}");
        }
        let twice = DeviceProfile::read_all(&format!("{good}\n# again\n{good}")).unwrap();
        assert_eq!(twice.len(), 1, "the later one counts");
    }
}
