//! CLIENT TRACKING, CACHING, GETREDIR and TRACKINGINFO: client-side caching.

use crate::dispatch::{CommandError, CommandResult, Ctx};
use crate::number::parse_i64;
use crate::session::TrackingMode;

/// The options of `CLIENT TRACKING` after ON or OFF.
#[derive(Default)]
struct Options<'a> {
    mode: TrackingMode,
    redirect: u64,
    prefixes: Vec<&'a [u8]>,
}

impl<'a> Options<'a> {
    fn parse(ctx: &Ctx<'a, '_>) -> Result<Self, CommandError> {
        let mut options = Self::default();
        let mut words = ctx.args.from(3);
        while let Some(word) = words.next() {
            let mode = match word.to_ascii_lowercase().as_slice() {
                b"bcast" => TrackingMode::BCAST,
                b"optin" => TrackingMode::OPTIN,
                b"optout" => TrackingMode::OPTOUT,
                b"noloop" => TrackingMode::NOLOOP,
                b"prefix" => {
                    options.prefixes.push(words.next().ok_or(CommandError::Syntax)?);
                    TrackingMode::NONE
                }
                b"redirect" => {
                    options.redirect_to(ctx, words.next().ok_or(CommandError::Syntax)?)?;
                    TrackingMode::NONE
                }
                _ => return Err(CommandError::Syntax),
            };
            options.mode = options.mode.and(mode);
        }
        Ok(options)
    }

    fn redirect_to(&mut self, ctx: &Ctx<'_, '_>, id: &[u8]) -> CommandResult {
        if self.redirect != 0 {
            return Err(CommandError::text(
                "ERR A client can only redirect to a single other client",
            ));
        }
        let id = parse_i64(id).ok_or(CommandError::NotInteger)?;
        let id = u64::try_from(id).ok().filter(|&id| ctx.server.sessions.get(id).is_some());
        self.redirect =
            id.ok_or(CommandError::text("ERR The client ID you want redirect to does not exist"))?;
        Ok(())
    }

    /// Refuses incompatible options, also with the connection's current mode.
    fn check(&self, ctx: &Ctx<'_, '_>) -> CommandResult {
        let (new, old) = (self.mode, ctx.client.session.tracking.mode());
        let bcast = new.has(TrackingMode::BCAST);
        let changes = |from, to| old.has(from) && new.has(to);
        let refusal = if !bcast && !self.prefixes.is_empty() {
            "ERR PREFIX option requires BCAST mode to be enabled"
        } else if old.has(TrackingMode::ON) && old.has(TrackingMode::BCAST) != bcast {
            "ERR You can't switch BCAST mode on/off before disabling tracking for this client, and then \
             re-enabling it with a different mode."
        } else if bcast && new.has(TrackingMode::OPTIN.and(TrackingMode::OPTOUT)) {
            "ERR OPTIN and OPTOUT are not compatible with BCAST"
        } else if new.has(TrackingMode::OPTIN) && new.has(TrackingMode::OPTOUT) {
            "ERR You can't use both OPTIN and OPTOUT"
        } else if changes(TrackingMode::OPTIN, TrackingMode::OPTOUT)
            || changes(TrackingMode::OPTOUT, TrackingMode::OPTIN)
        {
            "ERR You can't switch OPTIN/OPTOUT mode before disabling tracking for this client, and then \
             re-enabling it with a different mode."
        } else {
            return if bcast { self.check_prefixes(ctx) } else { Ok(()) };
        };
        Err(CommandError::text(refusal))
    }

    fn check_prefixes(&self, ctx: &Ctx<'_, '_>) -> CommandResult {
        for (at, prefix) in self.prefixes.iter().enumerate() {
            let named = ctx.client.prefixes.iter().map(Vec::as_slice);
            let named = named.map(|other| (other, "an existing"));
            let behind = self.prefixes[at + 1..].iter().map(|other| (*other, "another provided"));
            for (other, which) in named.chain(behind) {
                if prefix.starts_with(other) || other.starts_with(prefix) {
                    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
                    return Err(format!(
                        "ERR Prefix '{}' overlaps with {which} prefix '{}'. Prefixes for a single client must not \
                         overlap.",
                        text(prefix),
                        text(other)
                    )
                    .into());
                }
            }
        }
        Ok(())
    }
}

/// `CLIENT TRACKING ON|OFF [REDIRECT id] [PREFIX prefix ...] [BCAST] [OPTIN] [OPTOUT] [NOLOOP]`
pub(super) fn tracking(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let options = Options::parse(ctx)?;
    match ctx.args.get(2).to_ascii_lowercase().as_slice() {
        b"on" => {
            options.check(ctx)?;
            let Options { mode, redirect, mut prefixes } = options;
            if mode.has(TrackingMode::BCAST) && prefixes.is_empty() {
                prefixes.push(b"");
            }
            ctx.client.start_tracking(ctx.server, (mode, redirect), prefixes);
        }
        b"off" => ctx.client.stop_tracking(ctx.server),
        _ => return Err(CommandError::Syntax),
    }
    ctx.out.ok();
    Ok(())
}

/// `CLIENT CACHING YES|NO`
pub(super) fn caching(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let tracking = &ctx.client.session.tracking;
    if !tracking.is_on() {
        return Err(CommandError::text(
            "ERR CLIENT CACHING can be called only when the client is in tracking mode with OPTIN or \
             OPTOUT mode enabled",
        ));
    }
    let (mode, refusal) = match ctx.args.get(2).to_ascii_lowercase().as_slice() {
        b"yes" => (
            TrackingMode::OPTIN,
            "ERR CLIENT CACHING YES is only valid when tracking is enabled in OPTIN mode.",
        ),
        b"no" => (
            TrackingMode::OPTOUT,
            "ERR CLIENT CACHING NO is only valid when tracking is enabled in OPTOUT mode.",
        ),
        _ => return Err(CommandError::Syntax),
    };
    if !tracking.mode().has(mode) {
        return Err(CommandError::text(refusal));
    }
    tracking.add(TrackingMode::CACHING);
    ctx.out.ok();
    Ok(())
}

pub(super) fn get_redirection(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    ctx.out.int(ctx.client.session.tracking.shown_redirect());
    Ok(())
}

pub(super) fn tracking_info(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let mode = ctx.client.session.tracking.mode();
    let mut flags = vec![if mode.has(TrackingMode::ON) { "on" } else { "off" }];
    let caching = mode.has(TrackingMode::CACHING);
    for (has, flag) in [
        (mode.has(TrackingMode::BCAST), "bcast"),
        (mode.has(TrackingMode::OPTIN), "optin"),
        (mode.has(TrackingMode::OPTIN) && caching, "caching-yes"),
        (mode.has(TrackingMode::OPTOUT), "optout"),
        (mode.has(TrackingMode::OPTOUT) && caching, "caching-no"),
        (mode.has(TrackingMode::NOLOOP), "noloop"),
        (mode.has(TrackingMode::BROKEN_REDIRECT), "broken_redirect"),
    ] {
        if has {
            flags.push(flag);
        }
    }
    ctx.out.map(3);
    ctx.out.bulk(b"flags");
    ctx.out.set(flags.len());
    flags.iter().for_each(|flag| ctx.out.bulk(flag.as_bytes()));
    ctx.out.bulk(b"redirect");
    ctx.out.int(ctx.client.session.tracking.shown_redirect());
    ctx.out.bulk(b"prefixes");
    ctx.out.array(ctx.client.prefixes.len());
    for prefix in &ctx.client.prefixes {
        ctx.out.bulk(prefix);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::dispatch::client::Client;
    use crate::dispatch::{Args, Executor, Outcome};
    use crate::resp::{Reply, pack};
    use crate::server::Server;
    use sexton_engine::Engine;

    const NOW_MS: u64 = 1_000_000;
    const PUSH: &str = ">2\r\n$10\r\ninvalidate\r\n";

    /// A server with a client that caches and another one, both under RESP3.
    struct Bench {
        server: Server,
        executor: Executor,
        cache: Client,
        other: Client,
        now_ms: u64,
    }

    impl Bench {
        fn new(options: &str) -> Self {
            let server = Server::new(Engine::in_memory(16).expect("a store in memory opens"), 16);
            let open = || {
                let session = server.sessions.open(String::new(), String::new(), -1);
                session.protocol.store(3, std::sync::atomic::Ordering::Relaxed);
                Client::new(&server, session)
            };
            let (cache, other) = (open(), open());
            let executor = Executor::new(crate::commands::table::table(), 0, true);
            let mut bench = Self { server, executor, cache, other, now_ms: NOW_MS };
            assert_eq!(bench.cached(&format!("CLIENT TRACKING ON{options}")), "+OK\r\n");
            bench
        }

        fn run(&mut self, by_cache: bool, line: &str) -> String {
            let (buf, ranges) = pack(line.split(' ').map(str::as_bytes));
            let mut out = Reply::new();
            out.set_resp3(true);
            let client = if by_cache { &mut self.cache } else { &mut self.other };
            let args = Args::new(&buf, &ranges);
            let outcome = self.executor.execute(&self.server, client, args, &mut out, self.now_ms);
            assert!(matches!(outcome, Outcome::Done(_)), "{line}: {outcome:?}");
            self.executor.tell_prefixes(&self.server, client, &mut out);
            String::from_utf8_lossy(out.bytes()).into_owned()
        }

        /// The reply to the caching client, with the notifications after it.
        fn cached(&mut self, line: &str) -> String {
            self.run(true, line)
        }

        fn all_cached(&mut self, lines: &[&str]) {
            lines.iter().for_each(|line| drop(self.cached(line)));
        }

        /// The notifications caused by requests of the other client.
        fn told(&mut self, lines: &[&str]) -> String {
            lines.iter().for_each(|line| drop(self.run(false, line)));
            String::from_utf8_lossy(&self.cache.session.outbox.take().bytes).into_owned()
        }
    }

    fn keys(keys: &[&str]) -> String {
        let bulks = keys.iter().map(|key| format!("${}\r\n{key}\r\n", key.len()));
        format!("{PUSH}*{}\r\n{}", keys.len(), bulks.collect::<String>())
    }

    #[test]
    fn a_key_is_told_once_each_time_it_was_read() {
        let mut bench = Bench::new("");
        assert_eq!(bench.told(&["SET k 1"]), "");
        bench.cached("MGET k absent");
        assert_eq!(bench.server.events.tracking.sizes(), (2, 2));
        assert_eq!(bench.told(&["SET k 2", "SET k 3"]), keys(&["k"]));
        assert_eq!(bench.told(&["SETNX absent 1"]), keys(&["absent"]));
        assert_eq!(bench.server.events.tracking.sizes(), (0, 0));
        bench.cached("GET k");
        bench.cached("CLIENT TRACKING OFF");
        assert_eq!(bench.told(&["SET k 4"]), "", "it does not track any more");
    }

    #[test]
    fn plain_gets_of_the_short_way_are_remembered() {
        let mut bench = Bench::new("");
        bench.told(&["SET k 1"]);
        let hash = bench.server.engine.hash(b"k");
        let Bench { server, executor, cache, .. } = &mut bench;
        assert!(executor.is_fast(server, cache));
        let mut out = Reply::new();
        assert!(executor.fast_get(server, cache, b"k", hash, &mut out, NOW_MS).is_some());
        assert_eq!(bench.told(&["INCR k"]), keys(&["k"]));
        // A plain SET also notifies, the client itself after its reply.
        let Bench { server, executor, cache, .. } = &mut bench;
        let mut out = Reply::new();
        executor.fast_get(server, cache, b"k", hash, &mut out, NOW_MS);
        out.truncate(0);
        executor.fast_set(server, cache, b"k", hash, b"2", b"", &mut out, NOW_MS);
        assert_eq!(String::from_utf8_lossy(out.bytes()), format!("+OK\r\n{}", keys(&["k"])));
    }

    #[test]
    fn what_a_transaction_reads_behind_its_own_write_stays_remembered() {
        let mut bench = Bench::new("");
        bench.all_cached(&["GET k", "MULTI", "SET k 1", "GET k"]);
        assert_eq!(bench.cached("EXEC"), format!("*2\r\n+OK\r\n$1\r\n1\r\n{}", keys(&["k"])));
        assert_eq!(bench.told(&["SET k 2"]), keys(&["k"]));
        bench.all_cached(&["MULTI", "GET k", "SET k 1"]);
        assert_eq!(bench.cached("EXEC"), format!("*2\r\n$1\r\n2\r\n+OK\r\n{}", keys(&["k"])));
        assert_eq!(bench.told(&["SET k 2"]), "");
    }

    #[test]
    fn with_noloop_it_hears_of_time_but_not_of_itself() {
        let mut bench = Bench::new(" NOLOOP");
        bench.cached("GET k");
        assert_eq!(bench.cached("SET k 1 PX 10"), "+OK\r\n");
        bench.cached("GET k");
        bench.now_ms += 100;
        assert_eq!(bench.cached("EXISTS k"), format!(":0\r\n{}", keys(&["k"])));
    }

    #[test]
    fn client_caching_is_for_one_request_or_one_transaction() {
        let mut bench = Bench::new(" OPTIN");
        assert!(
            !bench.executor.is_fast(&bench.server, &bench.cache),
            "whether it is remembered is asked"
        );
        bench.all_cached(&["GET a", "CLIENT CACHING YES", "CLIENT GETNAME", "GET b", "GET c"]);
        assert_eq!(bench.told(&["MSET a 1 b 1 c 1"]), keys(&["b"]));
        bench.all_cached(&["CLIENT CACHING YES", "MULTI", "GET a", "GET b", "EXEC", "GET c"]);
        assert_eq!(bench.told(&["MSET a 1 b 1 c 1"]), keys(&["a"]) + &keys(&["b"]));
    }

    #[test]
    fn prefixes_hear_of_the_keys_of_a_batch_in_one_message() {
        let mut bench = Bench::new(" BCAST PREFIX a NOLOOP");
        assert_eq!(bench.told(&["MSET b 1 a2 1 a1 1 a2 3"]), keys(&["a1", "a2"]));
        assert_eq!(bench.cached("SET a1 2"), "+OK\r\n");
        assert_eq!(bench.server.events.tracking.sizes(), (0, 0), "reads are not remembered");
        assert!(
            bench
                .cached("CLIENT TRACKING ON BCAST PREFIX ab")
                .contains("overlaps with an existing")
        );
        assert_eq!(bench.server.events.tracking.prefixes(), 1);
        bench.cached("RESET");
        assert_eq!(bench.server.events.tracking.prefixes(), 0);
        assert_eq!(bench.server.events.tracking.clients(), 0);
    }

    #[test]
    fn an_emptied_database_is_told_whatever_was_in_it() {
        let mut bench = Bench::new("");
        bench.cached("GET k");
        assert_eq!(bench.told(&["FLUSHDB"]), format!("{PUSH}_\r\n"));
        assert_eq!(bench.server.events.tracking.sizes(), (0, 0));
        assert_eq!(bench.cached("FLUSHALL"), format!("+OK\r\n{PUSH}_\r\n"));
    }

    #[test]
    fn a_value_of_the_past_is_forgotten_as_soon_as_it_is_read() {
        let mut bench = Bench::new("");
        bench.told(&["SET k 1"]);
        bench.cached("SEXTON.SNAPSHOT OPEN");
        bench.told(&["SET k 2"]);
        assert_eq!(bench.cached("GET k"), format!("$1\r\n1\r\n{}", keys(&["k"])));
    }

    #[test]
    fn who_hears_in_place_of_another_may_leave() {
        let mut bench = Bench::new("");
        let receiver = bench.server.sessions.open(String::new(), String::new(), -1);
        bench.cached(&format!("CLIENT TRACKING ON REDIRECT {}", receiver.id));
        bench.cached("GET k");
        assert_eq!(bench.told(&["SET k 1"]), "");
        assert_eq!(receiver.outbox.bytes(), 0, "under RESP2 it would take this for a reply");
        bench.cached("GET k");
        bench.server.sessions.close(receiver.id);
        let broken = format!(">2\r\n$21\r\ntracking-redir-broken\r\n:{}\r\n", receiver.id);
        assert_eq!(bench.told(&["SET k 2"]), broken);
        assert!(bench.cached("CLIENT TRACKINGINFO").contains("broken_redirect"));
    }

    #[test]
    fn keys_beyond_the_bound_are_given_up_and_told() {
        let mut bench = Bench::new("");
        bench.server.events.tracking.set_max_keys(2);
        bench.cached("MGET a b c d");
        bench.server.events.tracking.keep_limit(bench.server.post());
        assert_eq!(bench.server.events.tracking.sizes(), (2, 2));
        assert_eq!(bench.told(&[]).matches("invalidate").count(), 2);
        bench.server.events.tracking.set_max_bytes(1);
        bench.server.events.tracking.keep_limit(bench.server.post());
        assert_eq!(bench.server.events.tracking.sizes(), (0, 0));
    }
}
