//! Where the commands of a log begin and end.

/// Walks RESP arrays of bulk strings and comment lines, as a Redis' log has them; ends at the first byte
/// that belongs to none of them, or to one that is not whole.
#[derive(Debug, Clone)]
pub struct Commands<'a> {
    bytes: &'a [u8],
    at: usize,
}

/// Longest line of digits behind `*` or `$`.
const LINE_MAX_BYTES: usize = 24;
/// Longest comment that a Redis takes.
const COMMENT_MAX_BYTES: usize = 1023;

impl<'a> Commands<'a> {
    /// The commands at the start of `bytes`.
    #[must_use]
    pub fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, at: 0 }
    }

    /// How far the walk has come: the offset of what it has not yet, or cannot, read.
    #[must_use]
    pub fn offset(&self) -> usize {
        self.at
    }

    /// Walks to the end of what can be read; answers whether that is the end of the bytes.
    #[must_use]
    pub fn reaches_end(&mut self) -> bool {
        while self.next().is_some() {}
        self.at == self.bytes.len()
    }

    fn whole(&self) -> Option<usize> {
        let mut rest = &self.bytes[self.at..];
        if rest.first() == Some(&b'#') {
            let line = rest.iter().take(COMMENT_MAX_BYTES).position(|byte| *byte == b'\n')?;
            return Some(line + 1);
        }
        for _ in 0..take_number(&mut rest, b'*')? {
            let length = take_number(&mut rest, b'$')?;
            rest = rest.get(length..)?.strip_prefix(b"\r\n")?;
        }
        Some(self.bytes.len() - self.at - rest.len())
    }
}

impl<'a> Iterator for Commands<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        let length = self.whole()?;
        let command = &self.bytes[self.at..self.at + length];
        self.at += length;
        Some(command)
    }
}

/// A line of `sign` and digits.
fn take_number(rest: &mut &[u8], sign: u8) -> Option<usize> {
    let digits = rest.strip_prefix(&[sign])?;
    let end = digits.iter().take(LINE_MAX_BYTES).position(|byte| *byte == b'\r')?;
    let number = std::str::from_utf8(&digits[..end]).ok()?.parse().ok()?;
    *rest = digits[end..].strip_prefix(b"\r\n")?;
    Some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_commands_and_comments_are_walked() {
        let log = b"#TS:17\r\n*1\r\n$4\r\nPING\r\n*2\r\n$3\r\nGET\r\n$0\r\n\r\n#x\n";
        let mut commands = Commands::new(log);
        let lengths: Vec<_> = commands.by_ref().map(<[u8]>::len).collect();
        assert_eq!((lengths, commands.offset()), (vec![8, 14, 19, 3], log.len()));
        for cut in 1..log.len() {
            let mut commands = Commands::new(&log[..cut]);
            let whole = [8, 22, 41].contains(&cut);
            assert_eq!(commands.reaches_end(), whole, "cut at {cut}");
        }
    }

    #[test]
    fn what_is_no_command_ends_the_walk() {
        for bad in [&b"PING\r\n"[..], b"*1\r\n:1\r\n", b"*x\r\n", b"*1\r\n$4\r\nPINGxx", b"*-1\r\n"]
        {
            let bytes = [b"*1\r\n$1\r\na\r\n", bad].concat();
            let mut commands = Commands::new(&bytes);
            assert!(!commands.reaches_end());
            assert_eq!(commands.offset(), 11, "{}", bad.escape_ascii());
        }
    }
}
