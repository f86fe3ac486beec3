//! MEMORY: figures of the allocator, and what a key costs.

use super::introspect::help;
use crate::arenas;
use crate::dispatch::{Binding, CommandError, CommandResult, Ctx, Purpose};
use crate::keyspace::paged::Paged;
use crate::observe::Memory;
use crate::resp::Reply;

/// MEMORY and its subcommands.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::container("memory"),
    Binding::local("memory|doctor", doctor),
    Binding::local("memory|help", help),
    Binding::local("memory|malloc-stats", malloc_stats),
    Binding::local("memory|purge", purge),
    Binding::survey("memory|stats", stats),
    Binding::keyed("memory|usage", usage),
];

/// Below this Redis' doctor finds an instance too small to judge.
const DOCTOR_MIN_BYTES: u64 = 5 << 20;

/// Overhead of an entry of the DRAM table besides key and value: table slot, header, rounding.
const ENTRY_OVERHEAD_BYTES: usize = 40;

fn usage(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let args = ctx.args;
    let mut at = 3;
    while at < args.len() {
        if !args.get(at).eq_ignore_ascii_case(b"samples") || at + 1 == args.len() {
            return Err(CommandError::Syntax);
        }
        if ctx.int_arg(at + 1)? < 0 {
            return Err(CommandError::Syntax);
        }
        at += 2;
    }
    let (db, key) = (ctx.client.db, args.get(2));
    ctx.inspect(Purpose::Write, db, key, |entry, out| match entry {
        None => out.null(),
        Some(entry) => {
            let paged = Paged::of_entry(entry).ok().flatten();
            let content = paged.map_or(0, |paged| paged.descriptor.totals.bytes as usize);
            let bytes = key.len() + entry.value().len() + content + ENTRY_OVERHEAD_BYTES;
            out.int(bytes as i64);
        }
    });
    Ok(())
}

fn purge(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    arenas::give_back_everything();
    ctx.server.observe.note_memory(Memory::now());
    ctx.out.ok();
    Ok(())
}

fn doctor(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let memory = ctx.server.observe.memory();
    let text = if memory.allocated_bytes < DOCTOR_MIN_BYTES {
        "Hi Sam, this instance is empty or is using very little memory, my issues detector can't \
         be used in these conditions. Please, leave for your mission on Earth and fill it with \
         some data. The new Sam and I will be back to our programming as soon as I finished \
         rebooting.\n"
    } else {
        "Hi Sam, I can't find any memory issue in your instance. I can only account for what \
         occurs on this base.\n"
    };
    ctx.out.verbatim("txt", text.as_bytes());
    Ok(())
}

fn malloc_stats(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let memory = ctx.server.observe.memory();
    let text = format!(
        "___ Begin jemalloc statistics ___\nAllocated: {}, active: {}, resident: {}\n\
         --- End jemalloc statistics ---\n",
        memory.allocated_bytes, memory.active_bytes, memory.resident_bytes
    );
    ctx.out.verbatim("txt", text.as_bytes());
    Ok(())
}

fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

fn stats(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let observe = &ctx.server.observe;
    let memory = observe.memory();
    let holders = ctx.server.holders();
    let peak = observe.note_peak(holders.used);
    let keys: u64 =
        (0..ctx.server.databases).map(|db| ctx.server.engine.count_provisional(db).0).sum();
    let allocated = holders.used;
    let used = allocated.saturating_sub(holders.startup);
    let (dataset, overhead) = (holders.data, allocated - holders.data);

    let mut fields = Fields { out: Reply::new(), count: 0 };
    fields.out.set_resp3(ctx.out.is_resp3());
    fields.int("peak.allocated", peak);
    fields.int("total.allocated", allocated);
    fields.int("startup.allocated", holders.startup);
    fields.int("replication.backlog", 0);
    fields.int("clients.slaves", 0);
    fields.int("clients.normal", holders.clients);
    fields.int("cluster.links", 0);
    fields.int("aof.buffer", holders.store.log_buffer);
    fields.int("lua.caches", 0);
    fields.int("functions.caches", 0);
    fields.int("overhead.total", overhead);
    fields.int("keys.count", keys);
    fields.int("keys.bytes-per-key", used.checked_div(keys).unwrap_or(0));
    fields.int("dataset.bytes", dataset);
    fields.double("dataset.percentage", holders.data_percentage());
    fields.double("peak.percentage", 100.0 * ratio(allocated, peak));
    fields.int("allocator.allocated", memory.allocated_bytes);
    fields.int("allocator.active", memory.active_bytes);
    fields.int("allocator.resident", memory.resident_bytes);
    fields.double(
        "allocator-fragmentation.ratio",
        ratio(memory.active_bytes, memory.allocated_bytes),
    );
    fields.difference("allocator-fragmentation.bytes", memory.active_bytes, memory.allocated_bytes);
    fields.double("allocator-rss.ratio", ratio(memory.resident_bytes, memory.active_bytes));
    fields.difference("allocator-rss.bytes", memory.resident_bytes, memory.active_bytes);
    fields.double("rss-overhead.ratio", ratio(memory.rss_bytes, memory.resident_bytes));
    fields.difference("rss-overhead.bytes", memory.rss_bytes, memory.resident_bytes);
    fields.double("fragmentation", ratio(memory.rss_bytes, allocated));
    fields.difference("fragmentation.bytes", memory.rss_bytes, allocated);
    // Our own. The share of total.allocated that is neither data nor clients:
    fields.int("sexton.machinery", holders.machinery());
    // And what the process holds: with clients.normal and aof.buffer the parts add up to it.
    fields.int("sexton.held", holders.held);
    fields.int("sexton.base", holders.base);
    for (part, bytes) in holders.parts() {
        fields.int(&format!("sexton.{}", part.replace('_', "-")), bytes);
    }
    fields.signed("sexton.other", holders.other());

    ctx.out.map(fields.count);
    ctx.out.raw(fields.out.bytes());
    Ok(())
}

/// Fields of a map whose number is known at the end.
struct Fields {
    out: Reply,
    count: usize,
}

impl Fields {
    fn name(&mut self, name: &str) {
        self.out.bulk(name.as_bytes());
        self.count += 1;
    }

    fn int(&mut self, name: &str, value: u64) {
        self.name(name);
        self.out.int(value as i64);
    }

    fn signed(&mut self, name: &str, value: i64) {
        self.name(name);
        self.out.int(value);
    }

    fn difference(&mut self, name: &str, whole: u64, part: u64) {
        self.name(name);
        self.out.int(whole as i64 - part as i64);
    }

    fn double(&mut self, name: &str, value: f64) {
        self.name(name);
        self.out.double(&format!("{value}"));
    }
}
