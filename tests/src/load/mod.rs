//! Parts of the load generators: requests, replies, random numbers, percentiles.

mod random;
mod values;

pub use random::{Random, Zipf};
pub use values::Values;

use std::future::Future;
use std::io;
use tokio::task::LocalSet;

/// Appends one request, an array of bulk strings, to `out`.
pub fn encode(out: &mut Vec<u8>, args: &[&[u8]]) {
    out.extend_from_slice(format!("*{}\r\n", args.len()).as_bytes());
    for arg in args {
        out.extend_from_slice(format!("${}\r\n", arg.len()).as_bytes());
        out.extend_from_slice(arg);
        out.extend_from_slice(b"\r\n");
    }
}

/// Length of the complete reply at the start of `bytes`; `None` when more is needed.
///
/// # Errors
/// An error reply, or one of a type that the generators do not ask for.
pub fn reply_len(bytes: &[u8]) -> io::Result<Option<usize>> {
    let Some(line) = bytes.iter().position(|&byte| byte == b'\n').filter(|&at| at > 0) else {
        return Ok(None);
    };
    let number = || {
        let text = String::from_utf8_lossy(&bytes[1..line - 1]);
        text.parse::<i64>().map_err(io::Error::other)
    };
    match bytes[0] {
        b'+' | b':' => Ok(Some(line + 1)),
        b'$' => {
            let whole = line + 1 + usize::try_from(number()?).map_or(0, |n| n + 2);
            Ok((bytes.len() >= whole).then_some(whole))
        }
        b'*' => {
            let mut whole = line + 1;
            for _ in 0..number()? {
                let Some(item) = reply_len(&bytes[whole..])? else { return Ok(None) };
                whole += item;
            }
            Ok(Some(whole))
        }
        _ => Err(io::Error::other(String::from_utf8_lossy(&bytes[..line]).into_owned())),
    }
}

/// Runs all clients on this thread until they are done.
///
/// # Errors
/// No runtime, or the first error of a client.
pub fn run_clients<C>(clients: impl Iterator<Item = C>) -> io::Result<()>
where
    C: Future<Output = io::Result<()>> + 'static,
{
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let local = LocalSet::new();
    let tasks: Vec<_> = clients.map(|client| local.spawn_local(client)).collect();
    runtime.block_on(local.run_until(async {
        for task in tasks {
            task.await.map_err(io::Error::other)??;
        }
        Ok(())
    }))
}

/// The value below which `share` of the sorted list is found; 0 for an empty one.
#[must_use]
pub fn percentile(sorted_us: &[u32], share: f64) -> u32 {
    let index = (sorted_us.len() as f64 * share) as usize;
    sorted_us.get(index.min(sorted_us.len().saturating_sub(1))).copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn replies_are_measured_whole_or_not_at_all() {
        assert_eq!(reply_len(b"").unwrap(), None);
        assert_eq!(reply_len(b"+OK\r").unwrap(), None);
        assert_eq!(reply_len(b"+OK\r\n").unwrap(), Some(5));
        assert_eq!(reply_len(b":12\r\n+").unwrap(), Some(5));
        assert_eq!(reply_len(b"$-1\r\n").unwrap(), Some(5));
        assert_eq!(reply_len(b"$3\r\nab").unwrap(), None);
        assert_eq!(reply_len(b"$3\r\nabc\r\n").unwrap(), Some(9));
        assert!(reply_len(b"-ERR no\r\n").is_err());
    }

    #[test]
    fn percentiles_of_a_known_list() {
        let list: Vec<u32> = (1..=100).collect();
        assert_eq!(percentile(&list, 0.5), 51);
        assert_eq!(percentile(&list, 0.999), 100);
        assert_eq!(percentile(&[], 0.5), 0);
    }
}
