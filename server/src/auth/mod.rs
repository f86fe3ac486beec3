//! Users: their credentials and permissions.
//!
//! A user is immutable: a change creates a replacement and raises the epoch. A connection keeps its user together with
//! the epoch; comparing epochs tells whether the user is still current.

mod catalog;
mod check;
mod denials;
mod describe;
mod file;
mod rules;
mod selector;
#[cfg(test)]
mod tests;
mod user;

pub use catalog::{CATEGORIES, Catalog, category};
pub use check::{Denied, Request};
pub use denials::{Context, Denial, DenialLog, Reason};
pub use file::{check_line, user_of_line};
pub use rules::{RuleError, has_blanks, merge_selectors};
pub use selector::{KeyRights, Selector};
pub use user::User;

use parking_lot::RwLock;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The name of the user that connections begin with.
pub const DEFAULT_USER: &[u8] = b"default";

/// Users by name.
pub type Users = BTreeMap<Vec<u8>, Arc<User>>;

/// All users.
#[derive(Debug)]
pub struct Auth {
    users: RwLock<Users>,
    /// Rises with every change of a user.
    epoch: AtomicU64,
    /// The default user is off or has a password.
    is_required: AtomicBool,
    /// `acl-pubsub-default allchannels`.
    all_channels: AtomicBool,
    /// What was refused.
    pub denials: DenialLog,
}

impl Default for Auth {
    /// The default user: unrestricted, without a password.
    fn default() -> Self {
        let user = Arc::new(User::unrestricted(DEFAULT_USER));
        Self {
            users: RwLock::new(BTreeMap::from([(DEFAULT_USER.to_vec(), user)])),
            epoch: AtomicU64::new(0),
            is_required: AtomicBool::new(false),
            all_channels: AtomicBool::new(false),
            denials: DenialLog::default(),
        }
    }
}

/// A user before and after a change.
#[derive(Debug)]
pub struct Changed {
    /// `None`: there was none of the name.
    pub before: Option<Arc<User>>,
    /// As it is from now on.
    pub now: Arc<User>,
}

/// Whom a connection acts as.
#[derive(Clone, Debug)]
pub struct Identity {
    user: Arc<User>,
    epoch: u64,
    is_restricted: bool,
}

impl Default for Identity {
    fn default() -> Self {
        Self::new(Arc::new(User::unrestricted(DEFAULT_USER)), 0)
    }
}

impl Identity {
    fn new(user: Arc<User>, epoch: u64) -> Self {
        Self { is_restricted: !user.is_unrestricted(), user, epoch }
    }

    /// The user, as of the last [`Auth::renew`].
    #[must_use]
    pub fn user(&self) -> &Arc<User> {
        &self.user
    }

    /// True if the user's actions must be checked.
    #[inline]
    #[must_use]
    pub fn is_restricted(&self) -> bool {
        self.is_restricted
    }

    /// True until some user changes.
    #[inline]
    #[must_use]
    pub fn is_current(&self, auth: &Auth) -> bool {
        self.epoch == auth.epoch.load(Ordering::Acquire)
    }
}

impl Auth {
    /// `requirepass`: the default user's only password; an empty one means no password.
    pub fn set_password(&self, password: &[u8]) {
        self.change(|users| {
            if let Some(user) = users.get_mut(DEFAULT_USER) {
                *user = Arc::new(user.with_password(password));
            }
        });
    }

    /// `acl-pubsub-default`: whether new users may use all channels.
    pub fn set_all_channels(&self, all_channels: bool) {
        self.all_channels.store(all_channels, Ordering::Relaxed);
    }

    /// Whether new users may use all channels.
    #[must_use]
    pub fn all_channels(&self) -> bool {
        self.all_channels.load(Ordering::Relaxed)
    }

    /// True when a new connection must authenticate before it may do anything else.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.is_required.load(Ordering::Relaxed)
    }

    /// One user.
    #[must_use]
    pub fn user(&self, name: &[u8]) -> Option<Arc<User>> {
        self.users.read().get(name).cloned()
    }

    /// All users by name.
    #[must_use]
    pub fn users(&self) -> Vec<Arc<User>> {
        self.users.read().values().cloned().collect()
    }

    /// All users as lines: `user NAME rules...`.
    #[must_use]
    pub fn lines(&self, catalog: &Catalog) -> Vec<Vec<u8>> {
        self.users().iter().map(|user| user.line(catalog)).collect()
    }

    /// Whom a connection that has just been made acts as.
    #[must_use]
    pub fn anybody(&self) -> Identity {
        self.identity(DEFAULT_USER).unwrap_or_default()
    }

    fn identity(&self, name: &[u8]) -> Option<Identity> {
        let users = self.users.read();
        let user = users.get(name)?;
        Some(Identity::new(Arc::clone(user), self.epoch.load(Ordering::Acquire)))
    }

    /// The user of this name, if the password is right.
    #[must_use]
    pub fn authenticate(&self, name: &[u8], password: &[u8]) -> Option<Identity> {
        self.identity(name).filter(|identity| identity.user.accepts(password))
    }

    /// The user of this name, whom a certificate has shown, if connections may be made as it.
    #[must_use]
    pub fn certified(&self, name: &[u8]) -> Option<Identity> {
        self.identity(name).filter(|identity| identity.user.is_enabled())
    }

    /// Updates the rights. False if the user has been deleted.
    #[must_use]
    pub fn renew(&self, identity: &mut Identity) -> bool {
        if identity.is_current(self) {
            return true;
        }
        match self.identity(identity.user.name()) {
            Some(renewed) => {
                *identity = renewed;
                true
            }
            None => false,
        }
    }

    /// Applies rules to a user, all of them or none. Creates the user if none has this name.
    ///
    /// # Errors
    /// The rule that is wrong, and why.
    pub fn set_user<'r>(
        &self,
        catalog: &Catalog,
        name: &[u8],
        rules: &'r [Vec<u8>],
    ) -> Result<Changed, (&'r [u8], RuleError)> {
        let all_channels = self.all_channels();
        self.change(|users| {
            let before = users.get(name).cloned();
            let mut user = match &before {
                Some(user) => User::clone(user),
                None => User::new(name, all_channels),
            };
            for rule in rules {
                user.apply(catalog, all_channels, rule)
                    .map_err(|error| (rule.as_slice(), error))?;
            }
            let now = Arc::new(user);
            users.insert(name.to_vec(), Arc::clone(&now));
            Ok(Changed { before, now })
        })
    }

    /// Takes users away; answers which of them there were.
    pub fn delete_users<'n>(&self, names: impl Iterator<Item = &'n [u8]>) -> Vec<Vec<u8>> {
        self.change(|users| names.filter_map(|name| Some(users.remove_entry(name)?.0)).collect())
    }

    /// Takes all users that there were for others; answers the names of those before.
    fn replace_users(&self, users: Users) -> Vec<Vec<u8>> {
        self.change(|known| std::mem::replace(known, users).into_keys().collect())
    }

    /// Puts in one user.
    pub fn put_user(&self, user: User) {
        self.change(|users| users.insert(user.name().to_vec(), Arc::new(user)));
    }

    fn change<R>(&self, change: impl FnOnce(&mut Users) -> R) -> R {
        let mut users = self.users.write();
        let result = change(&mut users);
        let open = users
            .get(DEFAULT_USER)
            .is_some_and(|user| user.is_enabled() && user.needs_no_password());
        self.is_required.store(!open, Ordering::Relaxed);
        self.epoch.fetch_add(1, Ordering::Release);
        result
    }
}
