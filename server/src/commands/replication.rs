//! Replication and cluster commands on a standalone server.

use crate::dispatch::{Binding, CommandError, CommandResult, Ctx};

/// ROLE, REPLICAOF, and everything that needs cluster mode.
pub(super) const COMMANDS: &[Binding] = &[
    Binding::local("role", role),
    Binding::local("replicaof", replica_of),
    Binding::local("slaveof", replica_of),
    Binding::local("readonly", no_cluster),
    Binding::local("readwrite", no_cluster),
    Binding::local("asking", no_cluster),
    Binding::container("cluster"),
    Binding::local("cluster|countkeysinslot", no_cluster),
    Binding::local("cluster|getkeysinslot", no_cluster),
    Binding::local("cluster|info", no_cluster),
    Binding::local("cluster|keyslot", no_cluster),
    Binding::local("cluster|links", no_cluster),
    Binding::local("cluster|myid", no_cluster),
    Binding::local("cluster|myshardid", no_cluster),
    Binding::local("cluster|nodes", no_cluster),
    Binding::local("cluster|shards", no_cluster),
    Binding::local("cluster|slots", no_cluster),
];

fn role(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    ctx.out.array(3);
    ctx.out.bulk(b"master");
    ctx.out.int(0);
    ctx.out.array(0);
    Ok(())
}

fn replica_of(ctx: &mut Ctx<'_, '_>) -> CommandResult {
    let stop =
        ctx.args.get(1).eq_ignore_ascii_case(b"no") && ctx.args.get(2).eq_ignore_ascii_case(b"one");
    if !stop {
        return Err(CommandError::text("ERR this version cannot be a replica"));
    }
    ctx.out.ok();
    Ok(())
}

fn no_cluster(_ctx: &mut Ctx<'_, '_>) -> CommandResult {
    Err(CommandError::text("ERR This instance has cluster support disabled"))
}
