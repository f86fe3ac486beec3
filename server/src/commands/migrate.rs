//! MIGRATE: keys move to another server, or are copied there.
//!
//! The values are read, sent and deleted under the latches of their keys, so that nothing changes them in between. It runs on a
//! thread that may wait: clients that need other keys are served meanwhile.

use super::dump::payload_of;
use crate::dispatch::client::ScriptWants;
use crate::dispatch::{Args, Binding, CommandError, CommandResult, Ctx, Purpose, Traits};
use crate::events::Event;
use crate::resp::write_command;
use crate::state::targets::{Patience, Target, Unreached, is_timeout};
use crate::value::ValueType;
use std::io;
use std::ops::Range;
use std::sync::atomic::Ordering;
use std::time::Duration;

pub(super) const COMMANDS: &[Binding] = &[Binding::script("migrate", migrate)
    .with(Traits::WAITS_OUTSIDE)
    .secret_where(is_of_auth_option)];

/// The index of the first option.
const OPTIONS_AT: usize = 6;

/// Bytes of small values that are gathered before they are sent.
const PIECE_BYTES: usize = 64 << 10;

/// Where a connection breaks, in Redis' words.
const WRITING: &str = "writing to target instance";
const READING: &str = "reading to target instance";

/// Patience where the request names none.
const TIMEOUT_MS: i64 = 1000;

/// True of the user and the password.
fn is_of_auth_option(args: Args<'_>, wanted: usize) -> bool {
    let mut at = OPTIONS_AT;
    while at < args.len() {
        let secrets = match args.get(at).to_ascii_lowercase().as_slice() {
            b"keys" => return false,
            b"auth" => 1,
            b"auth2" => 2,
            _ => 0,
        };
        if (at + 1..=at + secrets).contains(&wanted) {
            return true;
        }
        at += 1 + secrets;
    }
    false
}

/// A request that makes sense.
struct Request<'a> {
    copies: bool,
    replaces: bool,
    /// The arguments of AUTH: a password, or a user and a password.
    auth: Vec<&'a [u8]>,
    /// The indexes of the keys.
    keys: Range<usize>,
    db: i64,
    timeout: Duration,
}

impl<'a> Request<'a> {
    fn parse(ctx: &Ctx<'a, '_>) -> Result<Self, CommandError> {
        let args = ctx.args;
        let (mut copies, mut replaces, mut auth, mut keys) = (false, false, Vec::new(), 3..4);
        let mut at = OPTIONS_AT;
        while at < args.len() {
            let behind = args.len() - at - 1;
            at += match args.get(at).to_ascii_lowercase().as_slice() {
                b"copy" => {
                    copies = true;
                    1
                }
                b"replace" => {
                    replaces = true;
                    1
                }
                b"auth" if behind >= 1 => {
                    auth = vec![args.get(at + 1)];
                    2
                }
                b"auth2" if behind >= 2 => {
                    auth = vec![args.get(at + 1), args.get(at + 2)];
                    3
                }
                b"keys" if !args.get(3).is_empty() => {
                    return Err(CommandError::text(
                        "ERR When using MIGRATE KEYS option, the key argument must be set to the empty string",
                    ));
                }
                b"keys" => {
                    keys = at + 1..args.len();
                    break;
                }
                _ => return Err(CommandError::Syntax),
            };
        }
        let timeout_ms = Some(ctx.int_arg(5)?).filter(|&ms| ms > 0).unwrap_or(TIMEOUT_MS);
        let timeout = Duration::from_millis(timeout_ms.unsigned_abs());
        Ok(Self { copies, replaces, auth, keys, db: ctx.int_arg(4)?, timeout })
    }
}

/// A key that is there.
struct Item<'a> {
    key: &'a [u8],
    /// How long it lives on, in ms; 0 for ever.
    ttl_ms: u64,
    payload: Vec<u8>,
}

/// The key with its value, if it is there.
fn item_of<'a>(ctx: &mut Ctx<'a, '_>, key: &'a [u8]) -> Result<Option<Item<'a>>, CommandError> {
    let (db, now_ms) = (ctx.client.db, ctx.now_ms);
    ctx.inspect_whole(Purpose::Read, (db, key), &ValueType::ALL, |entry, _| {
        let Some(entry) = entry else { return Ok(None) };
        let ttl_ms = match entry.meta().expire_at_ms {
            0 => 0,
            time => time.saturating_sub(now_ms).max(1),
        };
        Ok(Some(Item { key, ttl_ms, payload: payload_of(&entry)? }))
    })
}

/// What another server has answered.
#[derive(Default)]
struct Answers {
    /// The keys that it has taken, by their place.
    taken: Vec<usize>,
    /// Its first error, without the sign of one.
    refusal: Option<Vec<u8>>,
    /// Where the connection broke, and whether it was a matter of time.
    broken: Option<(&'static str, bool)>,
}

impl Answers {
    fn broken(at: &'static str, error: &io::Error) -> Self {
        Self { broken: Some((at, is_timeout(error))), ..Self::default() }
    }

    /// Nothing has come of the request, and it may be tried again.
    fn may_try_again(&self) -> bool {
        let broke_early = self.broken.is_some_and(|(_, by_time)| !by_time);
        broke_early && self.taken.is_empty() && self.refusal.is_none()
    }
}

/// Sends the keys, after the commands that lead to them.
fn send(
    target: &mut Target,
    (request, selects): (&Request<'_>, bool),
    items: &[Item<'_>],
    patience: Patience<'_>,
) -> io::Result<()> {
    let (mut bytes, mut digits) = (Vec::new(), itoa::Buffer::new());
    if !request.auth.is_empty() {
        let words = [&[&b"AUTH"[..]], &request.auth[..]].concat();
        write_command(&mut bytes, words.into_iter());
    }
    if selects {
        write_command(&mut bytes, [b"SELECT", digits.format(request.db).as_bytes()].into_iter());
    }
    for item in items {
        let ttl = digits.format(item.ttl_ms).as_bytes();
        let mut words = vec![&b"RESTORE"[..], item.key, ttl, &item.payload];
        words.extend(request.replaces.then_some(&b"REPLACE"[..]));
        write_command(&mut bytes, words.into_iter());
        if bytes.len() >= PIECE_BYTES {
            target.send(&bytes, patience)?;
            bytes.clear();
        }
    }
    target.send(&bytes, patience)
}

/// Sends the keys and reads what becomes of each.
fn exchange(
    target: &mut Target,
    request: &Request<'_>,
    items: &[Item<'_>],
    patience: Patience<'_>,
) -> Answers {
    let selects = target.db != Some(request.db);
    if let Err(error) = send(target, (request, selects), items, patience) {
        return Answers::broken(WRITING, &error);
    }
    // An error of the first commands stands for those of all keys.
    let mut refused = None;
    for _ in 0..usize::from(!request.auth.is_empty()) + usize::from(selects) {
        match target.line(patience) {
            Ok(line) => refused = refused.or_else(|| line.strip_prefix(b"-").map(<[u8]>::to_vec)),
            Err(error) => return Answers::broken(READING, &error),
        }
    }
    let mut answers = Answers::default();
    for place in 0..items.len() {
        let line = match target.line(patience) {
            Ok(line) => line,
            Err(error) => {
                answers.broken = Some((READING, is_timeout(&error)));
                break;
            }
        };
        let error = refused.clone().or_else(|| line.strip_prefix(b"-").map(<[u8]>::to_vec));
        match error {
            None => answers.taken.push(place),
            Some(error) => answers.refusal = answers.refusal.or(Some(error)),
        }
    }
    target.db = answers.refusal.is_none().then_some(request.db);
    answers
}

fn failed(at: &str) -> CommandError {
    format!("IOERR error or timeout {at}").into()
}

/// MIGRATE host port key|"" database timeout \[COPY\] \[REPLACE\] \[AUTH password | AUTH2 user password\] \[KEYS key ...\].
///
/// Logged as DEL of the keys that the other server has taken.
fn migrate(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let request = Request::parse(ctx)?;
    if !ctx.client.script.is_alone {
        ctx.client.script.wants = Some(ScriptWants::Alone);
        return Ok(());
    }
    let mut items = Vec::new();
    for at in request.keys.clone() {
        items.extend(item_of(ctx, ctx.args.get(at))?);
    }
    if items.is_empty() {
        ctx.out.simple("NOKEY");
        return Ok(());
    }
    let running = ctx.client.script.running.clone();
    let is_over = || running.as_ref().is_some_and(|running| running.kill.load(Ordering::Acquire));
    let patience = Patience { timeout: request.timeout, is_over: &is_over };
    let (host, port) = (ctx.args.get(1), ctx.args.get(2));
    let targets = &ctx.server.targets;
    let mut kept = targets.take(host, port);
    let mut tries = 0;
    let answers = loop {
        let connected = match kept.take() {
            Some(target) => Ok(target),
            None => Target::connect(host, port, patience),
        };
        let mut target = match connected {
            Ok(target) => target,
            // Redis notices when it writes.
            Err(Unreached::Refused) => return Err(failed(WRITING)),
            Err(_) => return Err(failed("connecting to the client")),
        };
        let answers = exchange(&mut target, &request, &items, patience);
        tries += 1;
        if answers.may_try_again() && tries == 1 {
            continue;
        }
        if answers.broken.is_none() {
            targets.keep(host, port, target);
        }
        break answers;
    };
    if !request.copies && !answers.taken.is_empty() {
        let db = ctx.client.db;
        let mut logged: Vec<&[u8]> = vec![b"DEL"];
        for &place in &answers.taken {
            ctx.delete(db, items[place].key, Event::generic("del"));
            logged.push(items[place].key);
        }
        ctx.log(db, &logged);
    }
    match (answers.refusal, answers.broken) {
        (Some(error), _) => {
            ctx.out.error(&[&b"ERR Target instance replied with error: "[..], &error].concat());
        }
        (None, Some((at, _))) => {
            ctx.out.error(format!("IOERR error or timeout {at}").as_bytes());
        }
        (None, None) => ctx.out.ok(),
    }
    Ok(())
}
