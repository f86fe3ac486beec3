//! The live configuration: what CONFIG GET shows, and what CONFIG SET does to the running server.

use crate::client_eviction::evict_clients;
use crate::client_memory::tracking_max_bytes;
use crate::crash;
use crate::devices::disk_of_level_0;
use crate::jobs::eviction;
use crate::keyspace::collection::Thresholds;
use crate::log;
use crate::number::parse_i64;
use crate::server::Server;
use sexton_config::choice::EvictionPolicy;
use sexton_config::machine::MachineMemory;
use sexton_config::{Config, Options, SetBy};
use sexton_engine::{MemoryBound, SyncPolicy, UndoFull, VALUE_MAX_BYTES};
use sexton_persistence::aof::{LogClock, log_clock};
use std::sync::atomic::Ordering;

/// Installs the server's initial configuration as the live one, and applies it.
///
/// # Errors
/// A directive whose value cannot be used.
pub fn start(server: &Server, config: Config) -> Result<(), String> {
    for (name, _) in config.get(&[b"*"]) {
        let name = String::from_utf8_lossy(&name);
        // The store was opened with its policy, users have been read, and the system's limits are checked later.
        let is_in_force =
            matches!(&*name, "appendonly" | "appendfsync" | "logfile" | "loglevel" | "requirepass");
        if !is_in_force && name != "maxclients" {
            apply(server, &config, &name).map_err(|reason| format!("{name}: {reason}"))?;
        }
    }
    server.config.name_without_effect(&config.without_effect());
    server.config.replace(config);
    server.engine.apply_memory_bound();
    Ok(())
}

/// Sets `maxclients` to what the system allows, which CONFIG GET then shows, as in Redis.
pub fn lower_clients_max(server: &Server, clients_max: u64) {
    server.settings.clients_max.store(clients_max, Ordering::Relaxed);
    let text = clients_max.to_string();
    let pairs: [(&[u8], &[u8]); 1] = [(b"maxclients", text.as_bytes())];
    // A number at most as large as the one that was accepted, and nothing to apply.
    let _ = server.config.set(&pairs, SetBy::default(), |_, _| Ok(()));
}

/// The bound of the process's memory, and the sizes that follow from it.
#[must_use]
pub fn memory_bound(options: &Options) -> MemoryBound {
    let on_disk = disk_of_level_0(options).is_some();
    let machine_bytes = MachineMemory::now().bytes;
    MemoryBound {
        bytes: options.maxmemory_bytes,
        memtable_bytes: options.effective_memtable_bytes(),
        memtable_max_bytes: options.memtable_bytes,
        max_write_buffer_number: options.effective_write_buffers(on_disk, machine_bytes),
    }
}

/// The smallest bound, in bytes, of which the resident set stays within 1.2 times. Threads, buffers of flushes and merges,
/// the allocator's reserves and the program itself take about 38 MB of a server under writes, measured with values
/// of 256 bytes and 1 KB.
const RESIDENT_MIN_BYTES: u64 = 40 << 20;

/// The warning for a bound that is too small for the resident set.
fn small_bound_remark(bound_bytes: u64) -> Option<String> {
    (1..RESIDENT_MIN_BYTES).contains(&bound_bytes).then(|| {
        format!(
            "maxmemory {bound_bytes}: data and clients are kept within it, the resident memory of the process only \
             within bounds of {RESIDENT_MIN_BYTES} bytes and more"
        )
    })
}

/// Applies a directive of `config` to the running server: the one place where CONFIG SET takes effect. It may run
/// under latches, inside a transaction, and takes no latches except for `appendonly` and `appendfsync`:
/// [`Engine::apply_memory_bound`](sexton_engine::Engine::apply_memory_bound) must follow.
///
/// # Errors
/// Why the value cannot be used, in Redis' words.
pub fn apply(server: &Server, config: &Config, name: &str) -> Result<(), String> {
    let settings = &server.settings;
    let text = &*config.text(name).unwrap_or_default();
    let int = |min: i64, max: i64| {
        let number = parse_i64(text).ok_or("argument couldn't be parsed into an integer")?;
        if (min..=max).contains(&number) {
            Ok(number)
        } else {
            Err(format!("argument must be between {min} and {max} inclusive"))
        }
    };
    let yes_no = || match text.to_ascii_lowercase().as_slice() {
        b"yes" => Ok(true),
        b"no" => Ok(false),
        _ => Err("argument must be 'yes' or 'no'".to_owned()),
    };
    let unsigned = |min: i64, max: i64| int(min, max).map(|number| number as u64);
    const INT_MAX: i64 = i32::MAX as i64;
    match name {
        "requirepass" => server.auth.set_password(text),
        "acl-pubsub-default" => server.auth.set_all_channels(text == b"allchannels"),
        "acllog-max-len" => {
            server.auth.denials.set_len_max(unsigned(0, i64::MAX)? as usize);
        }
        "loglevel" => {
            let level = String::from_utf8_lossy(text);
            log::set_level(log::Level::named(&level).ok_or("argument is not a level")?);
        }
        "logfile" => log::set_file(&config.options().logfile)
            .map_err(|error| format!("Can't open the log file: {error}"))?,
        "crash-log-enabled" => crash::report_crashes(yes_no()?),
        _ if name.starts_with("tls-") && name != "tls-port" => {
            configure_tls(server, config.options())?;
        }
        "port" | "bind" | "tls-port" => {
            if let Some(listening) = server.listening.get() {
                let options = config.options();
                configure_tls(server, options)?;
                let text = |address: &Vec<u8>| String::from_utf8_lossy(address).into_owned();
                let bind: Vec<String> = options.bind.iter().map(text).collect();
                listening.listen_on(&bind, options.port, options.tls.port).map_err(
                    |_| match name {
                        "port" | "tls-port" => "Unable to listen on this port. Check server logs.",
                        _ => "Failed to bind to specified addresses.",
                    },
                )?;
            }
        }
        "slowlog-log-slower-than" => server.observe.slowlog.set_threshold_us(int(-1, i64::MAX)?),
        "slowlog-max-len" => {
            server.observe.slowlog.set_len_max(unsigned(0, i64::MAX)? as usize);
        }
        "latency-monitor-threshold" => {
            server.observe.latency.set_threshold_ms(unsigned(0, i64::MAX)?);
        }
        "latency-tracking" => settings.latency_tracking.store(yes_no()?, Ordering::Relaxed),
        "appendonly" => {
            let on = yes_no()?;
            let policy = if on {
                policy_of(&config.text("appendfsync").unwrap_or_default())
            } else {
                SyncPolicy::Off
            };
            set_policy(server, policy)?;
        }
        // With `appendonly no` it is only remembered.
        "appendfsync" if server.engine.sync_policy() != SyncPolicy::Off => {
            set_policy(server, policy_of(text))?;
        }
        "aof-timestamp-enabled" => {
            server.engine.set_log_clock(yes_no()?.then_some(log_clock as LogClock));
        }
        "save" => server.saving.set_points(&config.options().save),
        "stop-writes-on-bgsave-error" => server.saving.set_stop_writes(yes_no()?),
        "protected-mode" => settings.protected_mode.store(yes_no()?, Ordering::Relaxed),
        "maxclients" => {
            let wanted = unsigned(1, INT_MAX)?;
            let possible =
                crate::descriptors::clients_possible(wanted).map_err(|e| e.to_string())?;
            if possible < wanted {
                return Err(format!(
                    "The operating system is not able to handle the specified number of clients, \
                     try with {possible}"
                ));
            }
            settings.clients_max.store(wanted, Ordering::Relaxed);
        }
        "timeout" => settings.idle_timeout_s.store(unsigned(0, INT_MAX)?, Ordering::Relaxed),
        "tcp-keepalive" => settings.keepalive_s.store(unsigned(0, INT_MAX)?, Ordering::Relaxed),
        "disk-max-bytes" => {
            server.disk_bound.set_max(unsigned(0, i64::MAX)?);
            server.disk_bound.look(&server.engine);
        }
        "backup-sealed-ttl" => {
            server.backup.sealed_ttl_s.store(unsigned(0, INT_MAX)?, Ordering::Relaxed);
        }
        "repl-timeout" => {
            server.copies.patience_s.store(unsigned(1, INT_MAX)?, Ordering::Relaxed);
        }
        "client-query-buffer-limit" => {
            let bytes = unsigned(1 << 20, i64::MAX)?;
            settings.query_buffer_max_bytes.store(bytes, Ordering::Relaxed);
        }
        "client-output-buffer-limit" => {
            settings.output_limit.set_from("normal", text)?;
            server.events.pubsub.output_limit.set_from("pubsub", text)?;
            server.copies.output_limit.set_from("slave", text)?;
        }
        // Not from the text, which as in Redis leaves out the `n` behind an `A`.
        "notify-keyspace-events" => {
            server.events.switch.set(config.options().notify_keyspace_events)
        }
        "proto-max-bulk-len" => {
            let bytes = unsigned(1 << 20, i64::MAX)?.min(VALUE_MAX_BYTES);
            settings.bulk_max_bytes.store(bytes, Ordering::Relaxed);
        }
        "maxmemory-clients" => {
            server.client_memory.set_max(config.options().maxmemory_clients);
            evict_clients(server);
        }
        "tracking-table-max-keys" => {
            server.events.tracking.set_max_keys(unsigned(0, i64::MAX)?);
        }
        "maxmemory" => {
            let bound = memory_bound(config.options());
            if let Some(remark) = small_bound_remark(bound.bytes) {
                log::notice(&remark);
            }
            server.engine.note_memory_bound(bound);
            server.events.tracking.set_max_bytes(tracking_max_bytes(server));
            evict_clients(server);
        }
        "undo-max-bytes" | "undo-full" => {
            let max = config.text("undo-max-bytes").unwrap_or_default();
            let max = parse_i64(&max).ok_or("argument couldn't be parsed into an integer")?;
            let expires = &*config.text("undo-full").unwrap_or_default() == b"expire-oldest";
            let full = if expires { UndoFull::ExpireOldest } else { UndoFull::RefuseSnapshots };
            server.engine.set_undo_bound(max.max(0) as u64, full);
        }
        "cemetery-max-memory" => server.engine.set_cemetery_bound(unsigned(0, i64::MAX)?),
        "delete-persist-seconds" => {
            let limit_ms = 1000 * unsigned(0, INT_MAX)?;
            // The store was opened with its limit, which a start may not refuse.
            if limit_ms != server.engine.delete_deadline_ms() {
                server.engine.set_delete_deadline(limit_ms).map_err(|error| error.to_string())?;
            }
        }
        "snapshot-max-age" => {
            settings.snapshot_max_age_s.store(unsigned(0, INT_MAX)?, Ordering::Relaxed);
        }
        "oom-score-adj" | "oom-score-adj-values" => {
            let mode = config.text("oom-score-adj").unwrap_or_default();
            let values = config.text("oom-score-adj-values").unwrap_or_default();
            server.oom_score.apply(&mode, &values)?;
        }
        "maxmemory-policy" => eviction::set_policy(server, eviction_policy_of(text)?),
        "maxmemory-samples" => {
            server.eviction.samples.store(unsigned(1, INT_MAX)? as usize, Ordering::Relaxed);
        }
        "lfu-log-factor" => {
            let factor = unsigned(0, INT_MAX)? as u32;
            server.eviction.access.log_factor.store(factor, Ordering::Relaxed);
        }
        "lfu-decay-time" => {
            let minutes = unsigned(0, INT_MAX)? as u32;
            server.eviction.access.decay_min.store(minutes, Ordering::Relaxed);
        }
        _ if name.starts_with("hash-max-")
            || name.starts_with("zset-max-")
            || name.starts_with("stream-node-max-")
            || matches!(name, "set-max-intset-entries" | "hll-sparse-max-bytes") =>
        {
            settings.thresholds.set(Thresholds::of(config.options()));
        }
        // The others are read where they are used, or have no effect here.
        _ => {}
    }
    Ok(())
}

/// Reads certificates and keys as these options have them.
fn configure_tls(server: &Server, options: &Options) -> Result<(), String> {
    let Some(listening) = server.listening.get() else { return Ok(()) };
    listening.configure_tls(&options.tls).map_err(|reason| {
        log::warning(&reason);
        "Unable to update TLS configuration. Check server logs.".to_owned()
    })
}

/// Reloads certificates and keys. They apply to new connections; existing connections are kept. If the new files are
/// invalid, the current ones stay in use.
pub fn reload_tls(server: &Server) {
    let options = server.config.options();
    let Some(listening) = server.listening.get().filter(|_| options.tls.port != 0) else { return };
    match listening.configure_tls(&options.tls) {
        Ok(()) => log::notice("TLS: certificates and keys have been read again"),
        Err(reason) => {
            log::warning(&format!("TLS: certificates and keys are kept as they were. {reason}"))
        }
    }
}

/// The policy that `maxmemory-policy` names.
fn eviction_policy_of(text: &[u8]) -> Result<EvictionPolicy, String> {
    Ok(match text {
        b"volatile-lru" => EvictionPolicy::VolatileLru,
        b"volatile-lfu" => EvictionPolicy::VolatileLfu,
        b"volatile-random" => EvictionPolicy::VolatileRandom,
        b"volatile-ttl" => EvictionPolicy::VolatileTtl,
        b"allkeys-lru" => EvictionPolicy::AllkeysLru,
        b"allkeys-lfu" => EvictionPolicy::AllkeysLfu,
        b"allkeys-random" => EvictionPolicy::AllkeysRandom,
        b"noeviction" => EvictionPolicy::NoEviction,
        _ => return Err("argument is not the name of an eviction policy".to_owned()),
    })
}

/// The policy that `appendfsync` names.
fn policy_of(text: &[u8]) -> SyncPolicy {
    match text {
        b"always" => SyncPolicy::Always,
        b"no" => SyncPolicy::No,
        _ => SyncPolicy::EverySec,
    }
}

fn set_policy(server: &Server, policy: SyncPolicy) -> Result<(), String> {
    server.engine.set_sync_policy(policy).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_that_the_resident_memory_is_not_kept_within_are_named() {
        assert_eq!(small_bound_remark(0), None, "no bound");
        assert_eq!(small_bound_remark(RESIDENT_MIN_BYTES), None);
        let remark = small_bound_remark(8 << 20).unwrap();
        assert!(remark.starts_with("maxmemory 8388608: "), "{remark}");
    }
}
