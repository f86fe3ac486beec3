//! Users and renamed commands, from the configuration.

use crate::auth::{Auth, RuleError, check_line, user_of_line};
use crate::commands::table;
use crate::log;
use sexton_config::{Config, ConfigError, ExtraLine};

const BOTH: &str = "Configuring Redis with users defined in redis.conf and at the same setting an ACL file path is \
invalid. This setup is very likely to lead to configuration errors and security holes, please define either an ACL file \
or declare users directly in your redis.conf, but not both.";

/// Processes the configuration lines that only the server understands: `rename-command`, which takes effect, and
/// `user`.
///
/// # Errors
/// The first invalid line.
pub fn take_lines(config: &Config) -> Result<(), ConfigError> {
    let lines = config.renamed_commands();
    let pairs = lines.iter().map(|line| (line.words[0].as_slice(), line.words[1].as_slice()));
    table::rename_all(pairs).map_err(|(nth, error)| lines[nth].refuse(error))?;
    let mut known: Vec<&[u8]> = Vec::new();
    for line in config.users() {
        let name = line.words[0].as_slice();
        if known.contains(&name) {
            return Err(refused(line, 1, RuleError::Duplicate));
        }
        known.push(name);
        check_line(table::table().catalog(), &line.words)
            .map_err(|(at, error)| refused(line, at, error))?;
    }
    Ok(())
}

/// The error of a `user` line. `at` counts from the word `user` on.
fn refused(line: &ExtraLine, at: usize, error: RuleError) -> ConfigError {
    let word = at.checked_sub(1).map_or(&b"user"[..], |at| &line.words[at]);
    let word = String::from_utf8_lossy(word);
    line.refuse(format!("Error in user declaration '{word}': {}", error.text()))
}

/// Loads the initial users: `requirepass` and the lines of the configuration, or the `aclfile`.
///
/// # Errors
/// The error in them.
pub(super) fn load(config: &Config) -> Result<Auth, String> {
    let options = config.options();
    let auth = Auth::default();
    let catalog = table::table().catalog();
    auth.set_all_channels(options.acl_pubsub_default_all);
    if let Some(password) = &options.requirepass {
        auth.set_password(password);
    }
    if !options.aclfile.is_empty() && !config.users().is_empty() {
        return Err(BOTH.to_owned());
    }
    for line in config.users() {
        let user = user_of_line(catalog, auth.all_channels(), &line.words).map_err(|text| {
            log::warning(&text);
            "Critical error while loading ACLs. Exiting.".to_owned()
        })?;
        if !user.is_enabled() {
            log::notice(&format!(
                "The user '{}' is disabled (there is no 'on' modifier in the user description). Make sure this is not \
                 a configuration error.",
                String::from_utf8_lossy(user.name())
            ));
        }
        auth.put_user(user);
    }
    if !options.aclfile.is_empty() {
        let path = String::from_utf8_lossy(&options.aclfile).into_owned();
        auth.load_file(catalog, &path)
            .map_err(|text| format!("Aborting Redis startup because of ACL errors: {text}"))?;
    }
    Ok(auth)
}
