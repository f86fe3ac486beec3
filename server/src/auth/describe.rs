//! Textual description of rules: the shortest list of categories and commands with equal rights, built as Redis builds it.

use super::catalog::{CATEGORIES, Catalog};
use super::selector::{KeyPattern, KeyRights, Selector};

impl Selector {
    /// The rules about commands: `+@all` or `-@all` first, then categories, then single commands.
    #[must_use]
    pub fn command_rules(&self, catalog: &Catalog) -> Vec<u8> {
        let adds = !self.allows_commands_to_come();
        let sign = if adds { '+' } else { '-' };
        let mut rules = if adds { b"-@all".to_vec() } else { b"+@all".to_vec() };
        // What the rules so far give, and what is left to be said.
        let mut given = Self::new(false);
        given.allow_all_commands(!adds);
        let mut left = self.clone();
        let mut applied = [false; CATEGORIES.len()];
        while let Some(best) = left.best_category(catalog, &applied, adds) {
            given.allow_category(catalog, best, adds);
            left.allow_category(catalog, best, !adds);
            rules.extend_from_slice(format!(" {sign}@{}", CATEGORIES[best]).as_bytes());
            applied[best] = true;
        }
        for (id, listed) in catalog.all() {
            let allowed = self.commands.has(id);
            if allowed != given.commands.has(id) {
                let sign = if allowed { '+' } else { '-' };
                rules.extend_from_slice(format!(" {sign}{}", listed.name).as_bytes());
                given.allow(catalog, id, allowed);
            }
            for argument in self.first_args.get(&id).into_iter().flatten().filter(|_| !allowed) {
                rules.extend_from_slice(format!(" +{}|", listed.name).as_bytes());
                rules.extend_from_slice(argument);
            }
        }
        rules
    }

    /// The category with the fewest differences from the allowed (or forbidden) commands, and then with the most of them.
    fn best_category(
        &self,
        catalog: &Catalog,
        applied: &[bool; CATEGORIES.len()],
        adds: bool,
    ) -> Option<usize> {
        let (mut best, mut least, mut most) = (None, usize::MAX, 0);
        for nth in (0..CATEGORIES.len()).filter(|&nth| !applied[nth]) {
            let (mut same, mut different) = (0, 0);
            for (id, _) in catalog
                .all()
                .filter(|(_, listed)| listed.is_of_redis && listed.categories & (1 << nth) != 0)
            {
                if self.commands.has(id) == adds {
                    same += 1;
                } else {
                    different += 1;
                }
            }
            let is_better = different < least || (different == least && same > most);
            if same > different && is_better {
                (best, least, most) = (Some(nth), different, same);
            }
        }
        best
    }

    /// The patterns of keys as rules.
    #[must_use]
    pub fn key_rules(&self) -> Vec<u8> {
        if self.all_keys {
            return b"~*".to_vec();
        }
        let rules: Vec<Vec<u8>> = self.keys.iter().map(KeyPattern::rule).collect();
        rules.join(&b' ')
    }

    /// The channels as rules.
    #[must_use]
    pub fn channel_rules(&self) -> Vec<u8> {
        if self.all_channels {
            return b"&*".to_vec();
        }
        let rules: Vec<Vec<u8>> =
            self.channels.iter().map(|pattern| [b"&", pattern.as_slice()].concat()).collect();
        rules.join(&b' ')
    }

    /// The databases as a rule, where not all are allowed.
    #[must_use]
    pub fn database_rule(&self) -> Option<Vec<u8>> {
        let databases = self.databases.as_ref()?;
        if databases.is_empty() {
            return Some(b"resetdbs".to_vec());
        }
        let numbers: Vec<String> = databases.iter().map(u32::to_string).collect();
        Some(format!("db={}", numbers.join(",")).into_bytes())
    }

    /// All rules, as in a line of ACL LIST.
    #[must_use]
    pub fn rules(&self, catalog: &Catalog) -> Vec<u8> {
        let mut rules = self.key_rules();
        if !rules.is_empty() {
            rules.push(b' ');
        }
        if !self.all_channels {
            rules.extend_from_slice(b"resetchannels ");
        }
        let channels = self.channel_rules();
        if !channels.is_empty() {
            rules.extend_from_slice(&channels);
            rules.push(b' ');
        }
        if let Some(rule) = self.database_rule() {
            rules.extend_from_slice(&rule);
            rules.push(b' ');
        }
        rules.extend_from_slice(&self.command_rules(catalog));
        rules
    }

    /// True if future commands are allowed: the rules then begin with all commands.
    fn allows_commands_to_come(&self) -> bool {
        self.commands.has(super::catalog::COMMANDS_MAX - 1)
    }
}

impl KeyPattern {
    fn rule(&self) -> Vec<u8> {
        let sign: &[u8] = match self.rights {
            KeyRights::READ => b"%R~",
            KeyRights::WRITE => b"%W~",
            _ => b"~",
        };
        [sign, &self.pattern].concat()
    }
}
