//! Random text: nothing panics or hangs, and every text that loads survives a rewrite unchanged.

use sexton_config::{Arguments, Config, Invocation, SetBy, table};

/// xorshift64*: deterministic inputs on every run.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        usize::try_from(self.next() % bound as u64).unwrap()
    }

    fn pick<'a, T>(&mut self, items: &'a [T]) -> &'a T {
        &items[self.below(items.len())]
    }

    fn bytes(&mut self, most: usize) -> Vec<u8> {
        let length = self.below(most + 1);
        (0..length).map(|_| self.next().to_le_bytes()[7]).collect()
    }

    /// A value that some directive may like.
    fn value(&mut self) -> Vec<u8> {
        const VALUES: [&str; 28] = [
            "yes",
            "no",
            "0",
            "1",
            "7",
            "-1",
            "100",
            "10kb",
            "3gb",
            "5%",
            "everysec",
            "always",
            "allkeys-lru",
            "\"\"",
            "''",
            "\"a b\"",
            "'a\\'b'",
            "\"\\x00\\xff\"",
            "900 1",
            "900 1 300 10",
            "normal 1kb 2mb 3",
            "replica 1 2 3 pubsub 4 5 6",
            "KEA",
            "50 99.999",
            "save now",
            "127.0.0.1 -::1",
            "default",
            "relative",
        ];
        match self.below(8) {
            0 => self.bytes(12),
            1 => self.next().to_string().into_bytes(),
            _ => self.pick(&VALUES).as_bytes().to_vec(),
        }
    }

    fn line(&mut self, names: &[&str]) -> Vec<u8> {
        let mut line = match self.below(40) {
            0 => b"rename-command".to_vec(),
            1 => b"user".to_vec(),
            2 => b"# comment".to_vec(),
            3 => self.bytes(20),
            _ => self.pick(names).as_bytes().to_vec(),
        };
        for _ in 0..1 + self.below(10) / 8 {
            line.push(*self.pick(b"    \t"));
            line.extend(self.value());
        }
        line.push(*self.pick(b"\n\n\n\n\n\n\n\r"));
        line
    }
}

fn names() -> Vec<&'static str> {
    table::all().flat_map(|row| [Some(row.name), row.alias]).flatten().collect()
}

/// The meaning of a file: all values and the lines kept for the server.
fn meaning(config: &Config) -> impl PartialEq + std::fmt::Debug {
    let words = |lines: &[sexton_config::ExtraLine]| -> Vec<_> {
        lines.iter().map(|line| line.words.clone()).collect()
    };
    let all: Vec<&[u8]> = table::all().map(|row| row.name.as_bytes()).collect();
    (config.get(&all), words(config.users()), words(config.renamed_commands()))
}

#[test]
fn random_bytes_never_panic() {
    let mut random = Random(0x5e47_0b1d);
    for _ in 0..20_000 {
        let text = random.bytes(120);
        if let Ok(config) = Config::from_text(&text) {
            assert!(config.rewritten(&text, None).len() < text.len() * 5 + 4096);
        }
        let arg = String::from_utf8_lossy(&text).into_owned();
        let lines = match Invocation::parse(["--hz".into(), arg.into(), "--save".into()]) {
            Invocation::Serve(Arguments { lines: Some(lines), .. }) => lines,
            other => panic!("{other:?}"),
        };
        assert!(lines.ends_with(b"\"\""));
    }
}

#[test]
fn what_loads_survives_a_rewrite() {
    let names = names();
    let mut random = Random(0x0ddba11);
    let mut loaded = 0;
    for _ in 0..5_000 {
        let mut text = Vec::new();
        for _ in 0..1 + random.below(12) {
            let line = random.line(&names);
            if Config::from_text(&line).is_ok() || random.below(500) == 0 {
                text.extend(line);
            }
        }
        let Ok(mut config) = Config::from_text(&text) else { continue };
        loaded += usize::from(!text.is_empty());
        for _ in 0..2 {
            let (name, value) = (random.pick(&names).as_bytes(), random.value());
            let before = config.clone();
            if config.set_many(&[(name, &value), (b"hz", b"30")], SetBy::default()).is_err() {
                assert_eq!(config, before);
            }
        }
        let written = config.rewritten(&text, None);
        let shown = || String::from_utf8_lossy(&written).into_owned();
        let again = Config::from_text(&written).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(meaning(&again), meaning(&config), "{}", shown());
        assert_eq!(again.options(), config.options(), "{}", shown());
        assert_eq!(again.rewritten(&written, None), written, "{}", shown());
    }
    assert!(loaded > 1_000, "only {loaded} inputs were configurations");
}
