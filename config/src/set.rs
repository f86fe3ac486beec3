//! CONFIG SET: several directives at once, all or none.

use crate::config::{Config, make_dir_absolute};
use crate::directive::{Directive, Mutability};
use crate::error::SetError;
use crate::load::check_class;
use crate::options::Options;
use crate::table;
use crate::value::Value;

/// Origin of a configuration change: the kind of connection and the phase of the server.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SetBy {
    /// Whether the client's connection is local (for `enable-protected-configs local`).
    pub local: bool,
    /// Whether a data set is being loaded.
    pub loading: bool,
}

/// What CONFIG SET changed.
#[derive(Debug, Clone, PartialEq)]
pub struct SetDone {
    /// Names, without aliases, of the directives whose value is another one now.
    pub changed: Vec<&'static str>,
    /// Those of them that have no effect here, with the reason; the server logs them.
    pub without_effect: Vec<(&'static str, &'static str)>,
}

impl Config {
    /// Sets directives in the given order. On an error nothing has changed. The caller does this on a
    /// copy, applies the changed directives (opens ports, resizes tables), and adopts the copy on success;
    /// otherwise it returns [`SetError::apply`].
    pub fn set_many(&mut self, pairs: &[(&[u8], &[u8])], by: SetBy) -> Result<SetDone, SetError> {
        let rows = self.find_settable(pairs, by)?;
        let mut done = SetDone { changed: Vec::new(), without_effect: Vec::new() };
        let mut before: Vec<(usize, Value)> = Vec::new();
        for ((position, row, name), (_, text)) in rows.iter().zip(pairs) {
            match self.parse_text(*position, row, text) {
                Ok(value) if value == self.values[*position] => {}
                Ok(value) => {
                    let old = std::mem::replace(&mut self.values[*position], value);
                    before.push((*position, old));
                    if !done.changed.contains(&row.name) {
                        done.changed.push(row.name);
                    }
                }
                Err(reason) => {
                    for (position, value) in before.into_iter().rev() {
                        self.values[position] = value;
                    }
                    return Err(SetError::Failed { name: (*name).to_owned(), reason });
                }
            }
        }
        let no_effect =
            |name: &&'static str| Some((*name, table::find(name.as_bytes())?.no_effect_reason()?));
        done.without_effect = done.changed.iter().filter_map(no_effect).collect();
        make_dir_absolute(&mut self.values);
        self.options = Options::of(&self.values);
        Ok(done)
    }

    /// The rows to set, each with the name it was found by: a name and its alias may both be set.
    fn find_settable(
        &self,
        pairs: &[(&[u8], &[u8])],
        by: SetBy,
    ) -> Result<Vec<(usize, &'static Directive, &'static str)>, SetError> {
        let mut rows: Vec<(usize, &'static Directive, &'static str)> = Vec::new();
        for &(typed, text) in pairs {
            let (position, row) =
                table::find_row(typed).ok_or_else(|| SetError::Unknown(typed.to_vec()))?;
            let name = row.name_like(typed);
            let allowed = self.options.enable_protected_configs.allows(by.local);
            // Redis does not know these: a client that sets everything CONFIG GET shows must not fail at them.
            let stays =
                table::is_beyond_redis(name) && self.values[position].get_text(&row.kind) == text;
            let reason = match row.mutability {
                Mutability::Immutable if !stays => "can't set immutable config",
                Mutability::Protected if !allowed => "can't set protected config",
                _ if by.loading && row.deny_loading => return Err(SetError::Loading),
                _ if rows.iter().any(|(_, _, known)| *known == name) => "duplicate parameter",
                _ => {
                    rows.push((position, row, name));
                    continue;
                }
            };
            let name = String::from_utf8_lossy(typed).into_owned();
            return Err(SetError::Failed { name, reason: reason.to_owned() });
        }
        Ok(rows)
    }

    fn parse_text(
        &self,
        position: usize,
        row: &'static Directive,
        text: &[u8],
    ) -> Result<Value, String> {
        // Single blanks separate, so two of them hold an empty word between them.
        let words: Vec<Vec<u8>> = match text {
            [] if row.takes_many_words() => Vec::new(),
            text if row.takes_many_words() => {
                text.split(|b| *b == b' ').map(<[u8]>::to_vec).collect()
            }
            text => vec![text.to_vec()],
        };
        let value = row.bounded(row.kind.parse(&words, &self.values[position], false)?);
        check_class(row, &value)?;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(config: &mut Config, pairs: &[(&str, &str)]) -> Result<SetDone, String> {
        let pairs: Vec<_> = pairs.iter().map(|(n, v)| (n.as_bytes(), v.as_bytes())).collect();
        config.set_many(&pairs, SetBy::default()).map_err(|error| error.to_string())
    }

    fn failed(name: &str, reason: &str) -> String {
        format!("ERR CONFIG SET failed (possibly related to argument '{name}') - {reason}")
    }

    #[test]
    fn what_redis_does_not_know_and_only_a_start_sets_may_be_set_to_what_it_is() {
        let mut config = Config::default();
        for name in ["server-cpulist", "hash-seed", "max-write-buffer-number"] {
            let found = config.get(&[name.as_bytes()]);
            let now = String::from_utf8(found[0].1.clone()).unwrap();
            assert!(set(&mut config, &[(name, &now)]).is_ok(), "{name}");
            let refused = set(&mut config, &[(name, "1")]).unwrap_err();
            assert_eq!(refused, failed(name, "can't set immutable config"));
        }
        let refused = set(&mut config, &[("server_cpulist", "")]).unwrap_err();
        assert_eq!(refused, failed("server_cpulist", "can't set immutable config"));
    }

    /// Texts of redis-server 7.0.15.
    #[test]
    fn errors_are_those_of_redis_and_change_nothing() {
        const NO_INT: &str = "argument couldn't be parsed into an integer";
        const NO_POLICY: &str = "argument(s) must be one of the following: volatile-lru, \
            volatile-lfu, volatile-random, volatile-ttl, allkeys-lru, allkeys-lfu, \
            allkeys-random, noeviction";
        let before = Config::default();
        for (pairs, name, reason) in [
            (&[("maxmemory", "10x")][..], "maxmemory", "argument must be a memory value"),
            (&[("port", "99999")], "port", "argument must be between 0 and 65535 inclusive"),
            (&[("hz", "20"), ("timeout", "")], "timeout", NO_INT),
            (&[("timeout", " 5")], "timeout", NO_INT),
            (&[("HZ", "7x")], "hz", NO_INT),
            (&[("hash-max-ZIPLIST-entries", "x")], "hash-max-ziplist-entries", NO_INT),
            (&[("appendonly", "maybe")], "appendonly", "argument must be 'yes' or 'no'"),
            (&[("maxmemory-policy", "foo")], "maxmemory-policy", NO_POLICY),
            (&[("DATABASES", "3")], "DATABASES", "can't set immutable config"),
            (&[("databases", "3"), ("foo", "1")], "databases", "can't set immutable config"),
            (&[("dir", "/tmp")], "dir", "can't set protected config"),
            (&[("hz", "1"), ("Hz", "2")], "Hz", "duplicate parameter"),
            (&[("save", "900 1 300")], "save", "Invalid save parameters"),
            (&[("save", "900  1")], "save", "Invalid save parameters"),
            (
                &[("maxmemory-clients", "101%")],
                "maxmemory-clients",
                "percentage argument must be less or equal to 100",
            ),
            (
                &[("client-output-buffer-limit", "normal 1kb 2mb")],
                "client-output-buffer-limit",
                "Wrong number of arguments in buffer limit configuration.",
            ),
            (
                &[("shutdown-on-sigterm", "")],
                "shutdown-on-sigterm",
                "argument(s) must be one of the following: default, save, nosave, now, force",
            ),
            (
                &[("min-replicas-to-write", "1")],
                "min-replicas-to-write",
                "replication is not built yet",
            ),
        ] {
            let mut config = before.clone();
            assert_eq!(set(&mut config, pairs), Err(failed(name, reason)));
            assert_eq!(config, before, "{pairs:?}");
        }
        // Redis has no such directive, so a client that sets everything CONFIG GET shows must not fail at it.
        let shown = String::from_utf8(before.text("worker-threads").unwrap()).unwrap();
        assert!(
            set(&mut before.clone(), &[("worker-threads", &shown)]).unwrap().changed.is_empty()
        );
        let immutable = Err(failed("worker-threads", "can't set immutable config"));
        assert_eq!(set(&mut before.clone(), &[("worker-threads", "77")]), immutable);
        let unknown = "ERR Unknown option or number of arguments for CONFIG SET - 'foo'";
        assert_eq!(set(&mut before.clone(), &[("foo", "1"), ("dir", "2")]), Err(unknown.into()));
    }

    #[test]
    fn values_show_as_in_redis() {
        let mut config = Config::default();
        for (name, text, shown) in [
            ("maxmemory", "1KB", "1024"),
            ("maxmemory", "", "0"),
            ("maxmemory-clients", "0%", "0"),
            ("hz", "1000", "500"),
            ("hz", "0", "1"),
            ("save", "900 1 300 10", "900 1 300 10"),
            ("save", "", ""),
            ("shutdown-on-sigint", "force save now", "save now force"),
            ("shutdown-on-sigint", "default save", "save"),
            ("latency-tracking-info-percentiles", "50 99.99999999 100 0.00", "50 100 100 0"),
            ("latency-tracking-info-percentiles", "", ""),
            ("aof-timestamp-enabled", "YES", "yes"),
            ("repl-backlog-size", "1048576", "1048576"),
            (
                "client-output-buffer-limit",
                "replica 1 2 3",
                "normal 0 0 0 slave 1 2 3 pubsub 33554432 8388608 60",
            ),
        ] {
            set(&mut config, &[(name, text)]).unwrap();
            assert_eq!(config.text(name).unwrap(), shown.as_bytes(), "{name} {text:?}");
        }
    }

    #[test]
    fn changed_names() {
        let mut config = Config::default();
        let done = set(
            &mut config,
            &[
                ("slowlog-max-len", "20"),
                ("timeout", "0"),
                ("hash-max-ziplist-value", "1"),
                ("hash-max-listpack-value", "2"),
                ("activerehashing", "no"),
            ],
        );
        let done = done.unwrap();
        assert_eq!(done.changed, ["slowlog-max-len", "hash-max-listpack-value", "activerehashing"]);
        let names: Vec<&str> = done.without_effect.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["activerehashing"]);
        assert_eq!(config.options().slowlog_max_len, 20);
        assert_eq!(config.options().hash_max_listpack_value_bytes, 2);
    }

    #[test]
    fn protected_and_loading() {
        let mut config = Config::from_text(b"enable-protected-configs local\n").unwrap();
        let pairs: [(&[u8], &[u8]); 1] = [(b"dbfilename", b"x.rdb")];
        assert!(config.set_many(&pairs, SetBy::default()).is_err());
        let done = config.set_many(&pairs, SetBy { local: true, loading: false }).unwrap();
        assert_eq!(done.changed, ["dbfilename"]);
        let loading = SetBy { local: true, loading: true };
        let denied = config.set_many(&[(b"appendonly", b"no")], loading).unwrap_err();
        assert_eq!(denied.to_string(), "LOADING Redis is loading the dataset in memory");
        assert!(config.set_many(&[(b"hz", b"5")], loading).is_ok());
    }
}
