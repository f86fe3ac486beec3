//! Users and their rights, with a small table of commands.

use super::catalog::tests::small;
use super::file::parse;
use super::*;
use std::ops::Range;

/// `name key...`, all keys read, or written where the command is SET or DEL.
struct Asked<'a>(&'a Catalog, Vec<&'a [u8]>);

impl Asked<'_> {
    fn of<'a>(catalog: &'a Catalog, words: &'a str) -> Asked<'a> {
        Asked(catalog, words.split(' ').map(str::as_bytes).collect())
    }
}

impl Request for Asked<'_> {
    fn command(&self) -> usize {
        self.0.find(self.1[0]).unwrap()
    }
    fn is_for_all(&self) -> bool {
        false
    }
    fn first_arg(&self) -> Option<&[u8]> {
        self.1.get(1).copied()
    }
    fn arg(&self, at: usize) -> &[u8] {
        self.1[at]
    }
    fn refused_key(&self, mut allowed: impl FnMut(&[u8], KeyRights) -> bool) -> Option<usize> {
        let rights = match self.1[0] {
            b"get" => KeyRights::READ,
            b"set" | b"del" => KeyRights::WRITE,
            _ => return None,
        };
        (1..self.1.len()).find(|&at| !allowed(self.1[at], rights))
    }
    fn refused_database(&self, mut allowed: impl FnMut(usize) -> bool) -> Option<usize> {
        (self.1[0] != b"publish" && !allowed(3)).then_some(0)
    }
    fn channels(&self) -> (Range<usize>, bool) {
        (if self.1[0] == b"publish" { 1..2 } else { 0..0 }, false)
    }
}

fn words(rules: &str) -> Vec<Vec<u8>> {
    rules.split(' ').map(|rule| rule.as_bytes().to_vec()).collect()
}

fn user(catalog: &Catalog, rules: &str) -> User {
    let mut user = User::new(b"ann", false);
    for rule in merge_selectors(&words(rules)).unwrap() {
        user.apply(catalog, false, &rule).unwrap();
    }
    user
}

fn line(rules: &str) -> String {
    let catalog = small();
    String::from_utf8(user(&catalog, rules).line(&catalog)).unwrap()
}

/// What is refused of each request.
fn checked(rules: &str, requests: &[&str]) -> Vec<Option<Denied>> {
    let catalog = small();
    let user = user(&catalog, rules);
    requests.iter().map(|words| user.check(&Asked::of(&catalog, words)).err()).collect()
}

#[test]
fn rules_are_put_into_words_as_redis_does() {
    assert_eq!(line("on"), "user ann on resetchannels -@all");
    assert_eq!(line("allkeys allchannels allcommands nopass"), "user ann off nopass ~* &* +@all");
    assert_eq!(
        line("~a %R~b %W~c %RW~d %R~a &x +@all -config|get"),
        "user ann off ~a %R~b %W~c ~d resetchannels &x +@all -config|get"
    );
    assert_eq!(
        line("+get (+set ~x) (~y)"),
        "user ann off resetchannels -@all +get (~x resetchannels -@all +set) (~y resetchannels -@all)"
    );
    assert_eq!(
        line("+select|0 +select|0 +select|1"),
        "user ann off resetchannels -@all +select|0 +select|1"
    );
    assert_eq!(line("+config -config|set"), "user ann off resetchannels -@all +config -config|set");
    assert_eq!(
        line("skip-sanitize-payload reset"),
        "user ann off sanitize-payload resetchannels -@all"
    );
}

#[test]
fn what_is_not_a_rule_is_refused_with_the_reason() {
    let catalog = small();
    for (rules, wrong, error) in [
        ("", "+nosuch", RuleError::Unknown),
        ("", "-get|x", RuleError::Unknown),
        ("", "+@nosuch", RuleError::Unknown),
        ("", "+select|", RuleError::Syntax),
        ("", "+config|get|x", RuleError::ArgumentOfSubcommand),
        ("", "%~x", RuleError::Syntax),
        ("", "%RR~x", RuleError::Syntax),
        ("", "%", RuleError::Syntax),
        ("", "~a b", RuleError::Syntax),
        ("allkeys", "~a", RuleError::AllKeys),
        ("&*", "&a", RuleError::AllChannels),
        ("", "<x", RuleError::NoPassword),
        ("", "#abc", RuleError::Digest),
        ("", "(nopass)", RuleError::Syntax),
        ("", "nosuch", RuleError::Syntax),
    ] {
        let mut user = user(&catalog, rules);
        let before = user.clone();
        assert_eq!(user.apply(&catalog, false, wrong.as_bytes()), Err(error), "{wrong}");
        assert_eq!(user, before, "{wrong}");
    }
}

#[test]
fn passwords_come_and_go_by_their_digests() {
    let catalog = small();
    let mut ann = user(&catalog, "on >secret >other");
    assert!(ann.accepts(b"secret") && ann.accepts(b"other") && !ann.accepts(b"third"));
    let digest = crate::digest::hex(&crate::digest::sha256(b"secret"));
    ann.apply(&catalog, false, format!("!{digest}").as_bytes()).unwrap();
    assert!(!ann.accepts(b"secret") && ann.accepts(b"other"));
    ann.apply(&catalog, false, format!("#{digest}").as_bytes()).unwrap();
    assert!(ann.accepts(b"secret"));
    ann.apply(&catalog, false, b"nopass").unwrap();
    assert!(ann.accepts(b"anything"));
    ann.apply(&catalog, false, b"off").unwrap();
    assert!(!ann.accepts(b"anything"));
    let shown = String::from_utf8(ann.line(&catalog)).unwrap();
    assert!(!shown.contains("secret"));
}

#[test]
fn commands_keys_and_channels_are_looked_at() {
    let requests = ["get a", "set a", "get b", "publish c", "publish d", "config|get x"];
    let (command, key, channel) =
        (Some(Denied::Command), Some(Denied::Key(1)), Some(Denied::Channel(1)));
    assert_eq!(checked("+@all ~* &*", &requests), [None; 6]);
    assert_eq!(checked("+@all %R~a &c", &requests), [None, key, key, None, channel, None]);
    assert_eq!(
        checked("+get ~b (+set %W~a)", &requests),
        [key, None, None, command, command, command]
    );
    assert_eq!(checked("+config ~*", &requests)[5], None);
    assert_eq!(checked("+select|0", &["select 0", "select 1"]), [None, command]);
    assert_eq!(checked("+@all ~a", &["del a a b"]), [Some(Denied::Key(3))]);
}

#[test]
fn databases_are_looked_at_first() {
    let requests = ["get a", "publish c"];
    let database = Some(Denied::Database(0));
    assert_eq!(checked("+@all ~* &* db=1,3", &requests), [None; 2]);
    assert_eq!(checked("+@all ~* &* db=3 db=1", &requests), [database, None]);
    assert_eq!(checked("+@all ~* &* resetdbs", &requests), [database, None]);
    assert_eq!(checked("+@all ~* &* resetdbs alldbs", &requests), [None; 2]);
    // What one set of rights lacks another may have, and the larger reason is told.
    assert_eq!(checked("+@all ~* &* db=1 (+get ~a db=3)", &requests)[0], None);
    assert_eq!(checked("+@all ~* &* db=1 (+get ~b)", &requests)[0], Some(Denied::Key(1)));
    assert_eq!(
        line("on nopass ~* db=7,2,7 +get"),
        "user ann on nopass ~* resetchannels db=2,7 -@all +get"
    );
    let catalog = small();
    let mut ann = user(&catalog, "on");
    for (rule, error) in [
        ("db=", RuleError::Syntax),
        ("db=1,", RuleError::Syntax),
        ("db=x", RuleError::Syntax),
        ("db=-1", RuleError::Database),
        ("db=2147483648", RuleError::Database),
    ] {
        assert_eq!(ann.apply(&catalog, false, rule.as_bytes()), Err(error), "{rule}");
    }
}

#[test]
fn a_connection_sees_changes_of_its_user() {
    let catalog = small();
    let auth = Auth::default();
    auth.set_user(&catalog, b"ann", &words("on nopass +@all allkeys &*")).unwrap();
    let mut ann = auth.authenticate(b"ann", b"").unwrap();
    assert!(ann.is_current(&auth) && !ann.is_restricted());
    auth.set_user(&catalog, b"ann", &words("-get")).unwrap();
    assert!(!ann.is_current(&auth));
    assert!(auth.renew(&mut ann) && ann.is_restricted());
    let rules = words("+get off nosuch");
    let (rule, error) = auth.set_user(&catalog, b"ann", &rules).unwrap_err();
    assert_eq!((rule, error), (&b"nosuch"[..], RuleError::Syntax));
    assert!(auth.user(b"ann").unwrap().is_enabled(), "all rules or none");
    assert_eq!(auth.delete_users([&b"ann"[..], b"bob"].into_iter()), [b"ann".to_vec()]);
    assert!(!auth.renew(&mut ann));
    assert!(auth.authenticate(b"ann", b"").is_none());
}

#[test]
fn the_default_user_has_the_password_that_is_required() {
    let auth = Auth::default();
    assert!(!auth.is_required() && auth.authenticate(b"default", b"anything").is_some());
    auth.set_password(b"secret");
    assert!(auth.is_required());
    assert!(auth.authenticate(b"default", b"secret").is_some());
    assert!(auth.authenticate(b"default", b"secret ").is_none());
    assert!(auth.authenticate(b"Default", b"secret").is_none());
    auth.set_password(b"");
    assert!(!auth.is_required());
    auth.set_user(&small(), DEFAULT_USER, &words("off")).unwrap();
    assert!(auth.is_required());
}

#[test]
fn a_file_of_users_is_taken_whole_or_not_at_all() {
    let catalog = small();
    let users =
        parse(&catalog, false, "f", b"user ann on +get ~x\n\n  user bob (+set ~y)\r\n").unwrap();
    assert_eq!(users.len(), 3);
    assert!(users[DEFAULT_USER].is_unrestricted());
    let error =
        parse(&catalog, false, "f", b"usr x\nuser ann +nosuch >x <y %\nuser ann\nuser bob (a")
            .unwrap_err();
    assert_eq!(
        error,
        "f:1 should start with user keyword followed by the username. f:2: Error in applying operation '+nosuch': \
         Unknown command or category name in ACL. f:2: The password you are trying to remove from the user does not \
         exist. WARNING: Duplicate user 'ann' found on line 3. f:4: Unmatched parenthesis in selector definition.\
         WARNING: ACL errors detected, no change to the previously active ACL rules was performed"
    );
}
