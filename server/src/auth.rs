//! Who may connect. There is one user, `default`; its password is `requirepass`.

use crate::digest::sha256;
use parking_lot::RwLock;

/// The name of the only user.
pub const DEFAULT_USER: &[u8] = b"default";

/// The default user's password.
#[derive(Debug, Default)]
pub struct Auth {
    /// SHA-256 of the password, as ACL shows it; `None` stands for `nopass`.
    password: RwLock<Option<[u8; 32]>>,
}

impl Auth {
    /// `requirepass`; an empty password turns authentication off.
    pub fn set_password(&self, password: &[u8]) {
        *self.password.write() = (!password.is_empty()).then(|| sha256(password));
    }

    /// True when a new connection must authenticate before it may do anything else.
    #[must_use]
    pub fn is_required(&self) -> bool {
        self.password.read().is_some()
    }

    /// SHA-256 of the password, if there is one.
    #[must_use]
    pub fn password_hash(&self) -> Option<[u8; 32]> {
        *self.password.read()
    }

    /// True when the user exists and the password is right; any password is right for `nopass`.
    ///
    /// Comparing hashes of what was sent tells nothing about the password by its timing.
    #[must_use]
    pub fn accepts(&self, user: &[u8], password: &[u8]) -> bool {
        user == DEFAULT_USER
            && self.password.read().is_none_or(|expected| expected == sha256(password))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_default_user_with_its_password() {
        let auth = Auth::default();
        assert!(!auth.is_required());
        assert!(auth.accepts(b"default", b"anything"));
        assert!(!auth.accepts(b"other", b"anything"));
        auth.set_password(b"secret");
        assert!(auth.is_required());
        assert!(auth.accepts(b"default", b"secret"));
        assert!(!auth.accepts(b"default", b"secret "));
        assert!(!auth.accepts(b"Default", b"secret"));
        auth.set_password(b"");
        assert!(!auth.is_required());
    }
}
