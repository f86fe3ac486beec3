//! COMMAND: information about the server's commands, for clients and tools.
//!
//! Every reply is generated from the command table and matches redis-server 7.0.15 byte for byte,
//! except that the order is alphabetical where Redis' order depends on a random hash seed.

use crate::commands::table;
use crate::dispatch::table::{Metadata, key_positions};
use crate::dispatch::{Args, Binding, CommandError, CommandResult, CommandSpec, Ctx, Flags};
use crate::interop::glob;
use crate::resp::Reply;

/// COMMAND and its subcommands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::local("command", all_info),
    Binding::local("command|count", count),
    Binding::local("command|docs", docs),
    Binding::local("command|getkeys", get_keys),
    Binding::local("command|getkeysandflags", get_keys_and_flags),
    Binding::local("command|help", help),
    Binding::local("command|info", info),
    Binding::local("command|list", list),
];

/// HELP of any container: the lines of the subcommands that this server has.
pub(super) fn help(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let name = ctx.spec.name.split('|').next().unwrap_or_default();
    let Some(container) = table::table().find_own(name.as_bytes()) else {
        return Err(CommandError::Syntax);
    };
    let mut shown = true;
    let lines: Vec<&str> = container
        .metadata
        .fields("help")
        .filter(|line| {
            let first = line.split(' ').next().unwrap_or_default();
            if !first.is_empty() {
                shown = first.starts_with('(')
                    || container.subcommands.is_empty()
                    || table::find_subcommand(container, first.as_bytes()).is_some();
            }
            shown
        })
        .collect();
    write_help(ctx.out, name, &lines);
    Ok(())
}

/// A help reply with Redis' first line and last lines around `lines`.
pub(super) fn write_help(out: &mut Reply, name: &str, lines: &[&str]) {
    out.array(lines.len() + 3);
    out.simple(&format!(
        "{} <subcommand> [<arg> [value] [opt] ...]. Subcommands are:",
        name.to_ascii_uppercase()
    ));
    for line in lines {
        out.simple(line);
    }
    out.simple("HELP");
    out.simple("    Prints this help.");
}

fn all_info(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    ctx.out.array(table::callable().len());
    for spec in table::callable() {
        write_info(ctx.out, spec);
    }
    Ok(())
}

fn count(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    ctx.out.int(table::callable().len() as i64);
    Ok(())
}

fn info(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    if ctx.args.len() == 2 {
        return all_info(ctx);
    }
    ctx.out.array(ctx.args.len() - 2);
    for name in ctx.args.from(2) {
        match table::find_full(name) {
            Some(spec) => write_info(ctx.out, spec),
            None => ctx.out.null(),
        }
    }
    Ok(())
}

fn list(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let args = ctx.args;
    let names: Vec<&str> = match args.len() {
        2 => table::all_with_subcommands().map(|spec| spec.name).collect(),
        5 if args.get(2).eq_ignore_ascii_case(b"filterby") => {
            let wanted = args.get(4);
            let keep: Box<dyn Fn(&CommandSpec) -> bool> =
                match args.get(3).to_ascii_lowercase().as_slice() {
                    b"module" => Box::new(|_| false),
                    b"aclcat" => Box::new(|spec| in_category(spec, wanted)),
                    b"pattern" => Box::new(|spec| {
                        glob::matches(&wanted.to_ascii_lowercase(), spec.name.as_bytes())
                    }),
                    _ => return Err(CommandError::Syntax),
                };
            table::all_with_subcommands().filter(|spec| keep(spec)).map(|spec| spec.name).collect()
        }
        _ => return Err(CommandError::Syntax),
    };
    ctx.out.array(names.len());
    for name in names {
        ctx.out.bulk(name.as_bytes());
    }
    Ok(())
}

/// True when the command is in the ACL category `name` (without its `@`, any case).
pub(super) fn in_category(spec: &CommandSpec, name: &[u8]) -> bool {
    spec.metadata.words("acl").any(|category| category.as_bytes()[1..].eq_ignore_ascii_case(name))
}

fn docs(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let specs: Vec<&CommandSpec> = if ctx.args.len() == 2 {
        table::callable().collect()
    } else {
        ctx.args.from(2).filter_map(table::find_full).collect()
    };
    ctx.out.map(specs.len());
    for spec in specs {
        ctx.out.bulk(spec.name.as_bytes());
        write_docs(ctx.out, spec);
    }
    Ok(())
}

fn get_keys(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    write_keys(ctx, false)
}

fn get_keys_and_flags(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    write_keys(ctx, true)
}

fn write_keys(ctx: &mut Ctx<'_, '_>, with_flags: bool) -> CommandResult {
    let request = ctx.args.tail(2);
    let spec =
        table::lookup(request).map_err(|_| CommandError::text("ERR Invalid command specified"))?;
    if !has_keys(spec) {
        return Err(CommandError::text("ERR The command has no key arguments"));
    }
    if !spec.accepts(request.len()) {
        return Err(CommandError::text("ERR Invalid number of arguments specified for command"));
    }
    let keys = key_positions(spec, request).unwrap_or_default();
    if keys.is_empty() && !spec.flags.contains(Flags::NO_MANDATORY_KEYS) {
        return Err(CommandError::text("ERR Invalid arguments specified for command"));
    }
    ctx.out.array(keys.len());
    for key in keys {
        if with_flags {
            ctx.out.array(2);
        }
        ctx.out.bulk(request.get(key.index));
        if with_flags {
            write_words(ctx.out, key.flags.split(' '));
        }
    }
    Ok(())
}

fn has_keys(spec: &CommandSpec) -> bool {
    spec.metadata.fields("spec").any(|text| {
        let flags = text.split(" ; ").next().unwrap_or_default();
        !flags.split(' ').any(|flag| flag == "not_key")
    })
}

/// A set of simple strings.
fn write_words<'w>(out: &mut Reply, words: impl Iterator<Item = &'w str> + Clone) {
    out.set(words.clone().count());
    for word in words {
        out.simple(word);
    }
}

fn write_info(out: &mut Reply, spec: &CommandSpec) {
    let metadata = &spec.metadata;
    out.array(10);
    out.bulk(spec.name.as_bytes());
    out.int(i64::from(spec.arity));
    write_words(out, metadata.words("flags"));
    out.int(spec.keys.first as i64);
    out.int(spec.keys.last as i64);
    out.int(spec.keys.step as i64);
    write_words(out, metadata.words("acl"));
    out.set(metadata.fields("tip").count());
    for tip in metadata.fields("tip") {
        out.bulk(tip.as_bytes());
    }
    out.set(metadata.fields("spec").count());
    for text in metadata.fields("spec") {
        write_key_spec(out, text);
    }
    if spec.subcommands.is_empty() {
        out.set(0);
        return;
    }
    out.array(spec.subcommands.len());
    for sub in &spec.subcommands {
        write_info(out, sub);
    }
}

/// `FLAGS ; begin KIND ARGS ; find KIND ARGS [; note TEXT]`
fn write_key_spec(out: &mut Reply, text: &str) {
    let mut parts = text.split(" ; ");
    let flags = parts.next().unwrap_or_default();
    let begin = parts.next().and_then(|part| part.strip_prefix("begin ")).unwrap_or_default();
    let find = parts.next().and_then(|part| part.strip_prefix("find ")).unwrap_or_default();
    let note = text.split_once(" ; note ").map(|(_, note)| note);

    out.map(3 + usize::from(note.is_some()));
    if let Some(note) = note {
        out.bulk(b"notes");
        out.bulk(note.as_bytes());
    }
    out.bulk(b"flags");
    write_words(out, flags.split(' '));
    for (label, part) in [("begin_search", begin), ("find_keys", find)] {
        let mut words = part.split(' ');
        let kind = words.next().unwrap_or_default();
        let names: &[&str] = match kind {
            "index" => &["index"],
            "keyword" => &["keyword", "startfrom"],
            "range" => &["lastkey", "keystep", "limit"],
            "keynum" => &["keynumidx", "firstkey", "keystep"],
            _ => &[],
        };
        out.bulk(label.as_bytes());
        out.map(2);
        out.bulk(b"type");
        out.bulk(kind.as_bytes());
        out.bulk(b"spec");
        out.map(names.len());
        for (name, word) in names.iter().zip(words) {
            out.bulk(name.as_bytes());
            match word.parse() {
                Ok(number) => out.int(number),
                Err(_) => out.bulk(word.as_bytes()),
            }
        }
    }
}

/// Labels of `commands.txt` with the names COMMAND DOCS gives them, in its order.
const DOC_FIELDS: [(&str, &str); 4] =
    [("summary", "summary"), ("since", "since"), ("group", "group"), ("complexity", "complexity")];
const DEPRECATION_FIELDS: [(&str, &str); 2] =
    [("deprecated", "deprecated_since"), ("replaced", "replaced_by")];

fn write_docs(out: &mut Reply, spec: &CommandSpec) {
    let metadata = &spec.metadata;
    let arguments: Vec<(usize, &str)> = metadata.arguments().collect();
    let labels = ["summary", "since", "group", "complexity", "docflags", "deprecated", "replaced"];
    let fields = labels.iter().filter(|label| metadata.field(label).is_some()).count()
        + usize::from(metadata.field("history").is_some())
        + usize::from(!arguments.is_empty())
        + usize::from(!spec.subcommands.is_empty());
    out.map(fields);
    write_texts(out, metadata, &DOC_FIELDS);
    if metadata.field("docflags").is_some() {
        out.bulk(b"doc_flags");
        write_words(out, metadata.words("docflags"));
    }
    write_texts(out, metadata, &DEPRECATION_FIELDS);
    if metadata.field("history").is_some() {
        out.bulk(b"history");
        out.set(metadata.fields("history").count());
        for entry in metadata.fields("history") {
            let (version, text) = entry.split_once(' ').unwrap_or((entry, ""));
            out.array(2);
            out.bulk(version.as_bytes());
            out.bulk(text.as_bytes());
        }
    }
    if !arguments.is_empty() {
        out.bulk(b"arguments");
        write_arguments(out, &arguments);
    }
    if !spec.subcommands.is_empty() {
        out.bulk(b"subcommands");
        out.map(spec.subcommands.len());
        for sub in &spec.subcommands {
            out.bulk(sub.name.as_bytes());
            write_docs(out, sub);
        }
    }
}

fn write_texts(out: &mut Reply, metadata: &Metadata, fields: &[(&str, &str)]) {
    for (label, name) in fields {
        if let Some(text) = metadata.field(label) {
            out.bulk(name.as_bytes());
            out.bulk(text.as_bytes());
        }
    }
}

/// Writes sibling arguments, each followed in `lines` by its deeper children.
fn write_arguments(out: &mut Reply, lines: &[(usize, &str)]) {
    let depth = lines[0].0;
    let starts: Vec<usize> = (0..lines.len()).filter(|at| lines[*at].0 == depth).collect();
    out.array(starts.len());
    for (nth, start) in starts.iter().enumerate() {
        let end = starts.get(nth + 1).copied().unwrap_or(lines.len());
        write_argument(out, lines[*start].1, &lines[start + 1..end]);
    }
}

fn write_argument(out: &mut Reply, line: &str, children: &[(usize, &str)]) {
    let mut words = line.split(' ');
    let name = words.next().unwrap_or_default();
    let kind = words.next().unwrap_or_default();
    out.map(2 + words.clone().count() + usize::from(!children.is_empty()));
    out.bulk(b"name");
    out.bulk(name.as_bytes());
    out.bulk(b"type");
    out.bulk(kind.as_bytes());
    for (label, value) in words.filter_map(|word| word.split_once('=')) {
        match label {
            "key" => {
                out.bulk(b"key_spec_index");
                out.int(value.parse().unwrap_or(0));
            }
            "deprecated" => {
                out.bulk(b"deprecated_since");
                out.bulk(value.as_bytes());
            }
            "flags" => {
                out.bulk(b"flags");
                write_words(out, value.split(','));
            }
            _ => {
                out.bulk(label.as_bytes());
                out.bulk(value.as_bytes());
            }
        }
    }
    if !children.is_empty() {
        out.bulk(b"arguments");
        write_arguments(out, children);
    }
}

/// The request that follows a prefix of arguments.
impl<'a> Args<'a> {
    /// The arguments from `index` on as a request of their own.
    #[must_use]
    pub fn tail(self, index: usize) -> Self {
        Self::new(self.buf, &self.ranges[index..])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(resp3: bool, write: impl FnOnce(&mut Reply)) -> String {
        let mut out = Reply::new();
        out.set_resp3(resp3);
        write(&mut out);
        String::from_utf8(out.bytes().to_vec()).unwrap().replace("\r\n", " ")
    }

    /// What redis-server 7.0.15 answers to COMMAND INFO.
    #[test]
    fn info_equals_redis() {
        let get = table::find(b"get").unwrap();
        assert_eq!(
            written(true, |out| write_info(out, get)),
            "*10 $3 get :2 ~2 +readonly +fast :1 :1 :1 ~3 +@read +@string +@fast ~0 ~1 %3 $5 flags \
             ~2 +RO +access $12 begin_search %2 $4 type $5 index $4 spec %1 $5 index :1 $9 find_keys \
             %2 $4 type $5 range $4 spec %3 $7 lastkey :0 $7 keystep :1 $5 limit :0 ~0 "
        );
        let ping = table::find(b"ping").unwrap();
        assert_eq!(
            written(false, |out| write_info(out, ping)),
            "*10 $4 ping :-1 *1 +fast :0 :0 :0 *2 +@fast +@connection *2 $25 \
             request_policy:all_shards $29 response_policy:all_succeeded *0 *0 "
        );
    }

    /// What redis-server 7.0.15 answers to COMMAND DOCS.
    #[test]
    fn docs_equal_redis() {
        let ping = table::find(b"ping").unwrap();
        assert_eq!(
            written(true, |out| write_docs(out, ping)),
            "%5 $7 summary $15 Ping the server $5 since $5 1.0.0 $5 group $10 connection \
             $10 complexity $4 O(1) $9 arguments *1 %3 $4 name $7 message $4 type $6 string \
             $5 flags ~1 +optional "
        );
        let nested = written(false, |out| write_docs(out, table::find(b"set").unwrap()));
        assert!(nested.contains(
            "$9 condition $4 type $5 oneof $5 since $6 2.6.12 $5 flags *1 +optional $9 arguments \
             *2 *6 $4 name $2 nx $4 type $10 pure-token $5 token $2 NX *6 $4 name $2 xx"
        ));
    }

    #[test]
    fn key_specifications_keep_their_notes() {
        let set = written(true, |out| write_info(out, table::find(b"set").unwrap()));
        assert!(set.contains(
            "~1 %4 $5 notes $48 RW and ACCESS due to the optional `GET` argument $5 flags ~4 +RW"
        ));
    }
}
