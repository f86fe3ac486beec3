//! The `device` declaration: a named place for files, its kind, and the profile it emulates.

/// The kind of a device; it controls how the persistence layer reads and writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DeviceKind {
    /// Rotating disk: large sequential writes.
    Hdd,
    /// SATA flash.
    Ssd,
    /// NVMe flash: parallel reads.
    Nvme,
    /// Persistent memory: mapped.
    Pmem,
}

impl DeviceKind {
    const NAMES: [(&'static str, DeviceKind); 4] = [
        ("hdd", DeviceKind::Hdd),
        ("ssd", DeviceKind::Ssd),
        ("nvme", DeviceKind::Nvme),
        ("pmem", DeviceKind::Pmem),
    ];

    /// The word of the configuration file.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }
}

/// One line `device NAME kind KIND path DIR [emulate PROFILE]`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeviceSpec {
    /// Name the `*-device` directives refer to.
    pub name: String,
    /// What it is.
    pub kind: DeviceKind,
    /// Directory on it, relative to `dir` unless absolute.
    pub path: Vec<u8>,
    /// Published latency and bandwidth profile put around real I/O.
    pub emulate: Option<String>,
}

impl DeviceSpec {
    /// Parses the words that follow `device`.
    pub fn parse(words: &[Vec<u8>]) -> Result<DeviceSpec, String> {
        const USAGE: &str = "device takes NAME kind hdd|ssd|nvme|pmem path DIR [emulate PROFILE]";
        let (name, rest) = words.split_first().ok_or(USAGE)?;
        let (mut kind, mut path, mut emulate) = (None, None, None);
        for pair in rest.chunks(2) {
            let [key, value] = pair else { return Err(USAGE.into()) };
            match key.to_ascii_lowercase().as_slice() {
                b"kind" if kind.is_none() => {
                    let word = String::from_utf8_lossy(value).to_ascii_lowercase();
                    let known = DeviceKind::NAMES.iter().find(|(name, _)| **name == word);
                    kind = Some(known.ok_or(USAGE)?.1);
                }
                b"path" if path.is_none() && !value.is_empty() => path = Some(value.clone()),
                b"emulate" if emulate.is_none() => emulate = Some(identifier(value)?),
                _ => return Err(USAGE.into()),
            }
        }
        let (Some(kind), Some(path)) = (kind, path) else { return Err(USAGE.into()) };
        Ok(DeviceSpec { name: identifier(name)?, kind, path, emulate })
    }

    /// The words of the line, so that [`DeviceSpec::parse`] reads them back.
    pub fn words(&self) -> Vec<Vec<u8>> {
        let mut words: Vec<Vec<u8>> = vec![
            self.name.clone().into(),
            b"kind".to_vec(),
            self.kind.name().into(),
            b"path".to_vec(),
            self.path.clone(),
        ];
        if let Some(profile) = &self.emulate {
            words.push(b"emulate".to_vec());
            words.push(profile.clone().into());
        }
        words
    }
}

/// Names and profiles: 1 to 64 letters, digits, `-`, `_` or `.`.
pub(crate) fn identifier(word: &[u8]) -> Result<String, String> {
    let allowed = |b: &u8| b.is_ascii_alphanumeric() || matches!(b, b'-' | b'_' | b'.');
    if word.is_empty() || word.len() > 64 || !word.iter().all(allowed) {
        return Err("device and profile names are 1 to 64 letters, digits, '-', '_' or '.'".into());
    }
    Ok(String::from_utf8_lossy(word).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> Result<DeviceSpec, String> {
        DeviceSpec::parse(&crate::syntax::split_words(line.as_bytes()).unwrap())
    }

    #[test]
    fn declarations_are_read_back() {
        for line in
            ["fast kind nvme path /mnt/a", "pm kind pmem path \"/mnt/p m\" emulate optane-200"]
        {
            let device = parse(line).unwrap();
            assert_eq!(DeviceSpec::parse(&device.words()), Ok(device));
        }
    }

    #[test]
    fn incomplete_declarations_are_refused() {
        for line in [
            "fast",
            "fast kind nvme",
            "fast kind tape path /a",
            "fast kind nvme path",
            "a/b kind hdd path /a",
            "a kind hdd path /a path /b",
            "a kind hdd path /a emulate",
        ] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
