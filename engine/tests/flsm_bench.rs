//! Every benchmark of `flsm-bench`, small: what was found, what was not, and the `--json` file.

use serde_json::Value;
use sexton_persistence::device::TempDir;
use std::process::{Command, Output};

fn bench(flags: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_flsm-bench")).args(flags).output().expect("it starts")
}

/// Runs benchmarks in a directory of their own and answers their results.
fn results(name: &str, flags: &[&str]) -> Vec<Value> {
    let dir = TempDir::new(name);
    let db = format!("--db={}", dir.join("db").display());
    let json = dir.join("out.json");
    let json_flag = format!("--json={}", json.display());
    let all = [&[&*db, &json_flag, "--progress_reports=0", "--settle=2"], flags].concat();
    let output = bench(&all);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = std::fs::read_to_string(json).expect("the file was written");
    let value: Value = serde_json::from_str(&text).expect("it is JSON");
    let lines = String::from_utf8_lossy(&output.stdout);
    let results = value["results"].as_array().expect("a list").clone();
    for result in &results {
        let name = result["name"].as_str().expect("a name");
        assert!(lines.contains(&format!("{name:<12} : ")), "no line of {name} in {lines}");
    }
    results
}

/// Operations, found, asked.
fn counts(result: &Value) -> (&str, u64, Option<u64>, Option<u64>) {
    let name = result["name"].as_str().expect("a name");
    let operations = result["operations"].as_u64().expect("a number");
    (name, operations, result["found"].as_u64(), result["asked"].as_u64())
}

#[test]
fn reads_find_what_was_written_and_not_what_was_deleted() {
    for mode in ["cemetery", "tombstones"] {
        for memtable in ["hash", "skiplist"] {
            let benchmarks =
                "--benchmarks=noop,fillseq,readrandom,readmissing,readseq,readreverse,\
                seekrandom,readhot,flush,readrandom,deleteseq,readseq,reopen,readseq,readreverse"
                    .replace([' ', '\n'], "");
            let mode_flag = format!("--delete_mode={mode}");
            let memtable_flag = format!("--memtable={memtable}");
            let flags = [
                &benchmarks,
                "--num=2000",
                "--deletes=500",
                "--threads=2",
                "--seek_nexts=3",
                &mode_flag,
                &memtable_flag,
            ];
            let results = results(&format!("read-{mode}-{memtable}"), &flags);
            let got: Vec<_> = results.iter().map(counts).collect();
            // Both threads write the same 2000 keys and delete the same 500.
            let all = (Some(4000), Some(4000));
            let expected = [
                ("noop", 4000, None, None),
                ("fillseq", 4000, None, None),
                ("readrandom", 4000, all.0, all.1),
                ("readmissing", 4000, Some(0), Some(4000)),
                ("readseq", 4000, None, None),
                ("readreverse", 4000, None, None),
                ("seekrandom", 4000, all.0, all.1),
                ("readhot", 4000, all.0, all.1),
                ("readrandom", 4000, all.0, all.1),
                ("deleteseq", 1000, None, None),
                ("readseq", 3000, None, None),
                ("readseq", 3000, None, None),
                ("readreverse", 3000, None, None),
            ];
            assert_eq!(got, expected, "{mode} {memtable}");
        }
    }
}

#[test]
fn random_writes_and_mixed_loads_count_what_they_did() {
    let flags = [
        "--benchmarks=fillrandom,overwrite,updaterandom,deleterandom,filluniquerandom,readrandom,\
         readwhilewriting,seekrandomwhilewriting,readrandomwriterandom,fillsync,deleteheadinsert"
            .replace([' ', '\n'], ""),
        "--num=1000".into(),
        "--reads=300".into(),
        "--histogram=1".into(),
        "--compression_type=none".into(),
        "--bloom_bits=0".into(),
    ];
    let results = results("mixed", &flags.each_ref().map(String::as_str));
    let find = |name: &str| results.iter().find(|r| r["name"] == name).expect(name);
    for name in ["fillrandom", "overwrite", "updaterandom", "deleterandom", "filluniquerandom"] {
        assert_eq!(find(name)["operations"], 1000, "{name}");
    }
    // 1000 draws of 1000 keys, twice, and those of this benchmark itself: 1 - 1/e^2 to 1 - 1/e^3.
    let found = find("updaterandom")["found"].as_u64().expect("a number");
    assert!((870..950).contains(&found), "{found} of 1000 found");
    for name in ["readrandom", "readwhilewriting", "seekrandomwhilewriting"] {
        let (_, operations, found, _) = counts(find(name));
        // Each key was written once by filluniquerandom.
        assert_eq!((operations, found), (300, Some(300)), "{name}");
    }
    assert_eq!(find("fillsync")["operations"], 1);
    assert_eq!(find("deleteheadinsert")["operations"], 1000);
    for result in &results {
        let latency = &result["latency_us"];
        let (p50, p99) = (latency["p50"].as_f64(), latency["p99"].as_f64());
        assert!(p50.is_some() && p50 <= p99, "{result}");
    }
}

#[test]
fn queue_trap_and_graves_have_their_figures() {
    let flags = ["--benchmarks=queue,trap,graves", "--num=500", "--deletes=100", "--graves=200"];
    let results = results("deletes", &flags);
    let figures = |i: usize| results[i]["figures"].as_object().expect("figures");
    // Ten parts and their ratio.
    assert_eq!(figures(0).len(), 11);
    // Two figures at eight moments.
    assert_eq!(figures(1).len(), 16);
    assert!(figures(1).values().all(|us| us.as_f64().is_some_and(|us| us > 0.0)));
    assert_eq!(figures(2)["graves at the start"], 200.0);
}

#[test]
fn the_past_is_read_from_its_own_device() {
    // Both emulated devices are fast; that they are two is what counts.
    let flags = [
        "--benchmarks=mvccundo",
        "--num=3000",
        "--reads=500",
        "--write_buffer_size=65536",
        "--cache_size=0",
        "--compression_type=none",
        "--db_profile=nvram",
        "--undo_profile=optane-pmem",
        "--settle=60",
    ];
    let results = results("past", &flags);
    assert_eq!(results[0]["operations"], 4 * 3000);
    let figure = |name: &str| results[0]["figures"][name].as_f64().expect(name);
    let (undo_bytes, tree_bytes) = (figure("undo_bytes"), figure("tree_bytes"));
    // Keys of 16 and values of 100 bytes, once: the living here, A's version there. What waits in level 0 and in the
    // level below it, four buffers each, holds overwritten versions too.
    let once = 3000.0 * 116.0..3000.0 * 150.0;
    assert!(once.contains(&undo_bytes), "{undo_bytes}");
    assert!((once.start..once.end + 8.0 * 65536.0).contains(&tree_bytes), "{tree_bytes}");
    for (name, keys) in [("ahead", 3000.0), ("block", 3000.0), ("single", 500.0), ("batch", 500.0)]
    {
        assert_eq!(figure(&format!("reread_{name}_keys")), keys, "{name}");
        assert!(figure(&format!("reread_{name}_undo_reads")) > 0.0, "{name}");
        assert_eq!(figure(&format!("reread_{name}_tree_reads")), 0.0, "all of it is younger");
    }
    assert!(figure("reread_ahead_undo_reads") < figure("reread_block_undo_reads"));
    // A block a key, and now and then one in a run whose filter errs.
    assert!((500.0..525.0).contains(&figure("reread_single_undo_reads")));
}

#[test]
fn undo_runs_may_lie_elsewhere() {
    let dir = TempDir::new("undo");
    let elsewhere = format!("--undo_dir={}", dir.join("flash").display());
    let left = dir.join("flash/undo/left");
    std::fs::create_dir_all(left.parent().expect("a directory")).expect("made");
    std::fs::write(&left, "of an earlier store").expect("written");
    let flags = [
        "--benchmarks=mvccundo",
        "--num=1000",
        "--reads=100",
        "--write_buffer_size=65536",
        "--rereads=single",
        "--settle=60",
        &elsewhere,
    ];
    let results = results("elsewhere", &flags);
    assert_eq!(results[0]["figures"]["reread_single_keys"], 100.0);
    assert!(results[0]["figures"]["reread_single_undo_reads"].as_f64() > Some(0.0), "read there");
    assert!(left.parent().is_some_and(std::path::Path::is_dir) && !left.exists(), "emptied first");
}

#[test]
fn a_held_snapshot_costs_undo_bytes_and_no_tree() {
    let run = |held: &str| {
        // Many times the four buffers that may wait in level 0, where overwritten versions are.
        let flags = [
            "--benchmarks=heldsnapshot",
            "--num=20000",
            "--overwrites=3",
            "--write_buffer_size=65536",
            "--settle=60",
        ];
        let results = results(&format!("held-{held}"), &[&flags[..], &[held]].concat());
        let figures = results[0]["figures"].as_object().expect("figures").clone();
        move |name: &str| figures[name].as_f64().expect("a number")
    };
    let (without, with) = (run("--held_snapshot=0"), run("--held_snapshot=1"));
    assert_eq!((without("undo_bytes"), without("undo_bytes_computed")), (0.0, 0.0));
    let ratio = with("undo_bytes") / with("undo_bytes_computed");
    assert!((0.7..1.5).contains(&ratio), "undo bytes are {ratio} of those computed");
    let ratio = with("tree_bytes") / without("tree_bytes");
    // With the snapshot's versions in it, it would be twice as large.
    assert!((0.7..1.4).contains(&ratio), "the tree is {ratio} of that without a snapshot");
}

#[test]
fn wrong_names_and_foreign_directories_are_refused() {
    let output = bench(&["--benchmarks=fillsideways"]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("fillsideways"));
    let dir = TempDir::new("foreign");
    std::fs::write(dir.join("thesis.tex"), "x").expect("written");
    let db = format!("--db={}", dir.display());
    let output = bench(&["--benchmarks=fillseq", "--num=10", &db]);
    assert!(!output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("thesis.tex"));
    assert!(dir.join("thesis.tex").exists());
}

#[test]
fn an_existing_store_is_kept_when_asked() {
    let dir = TempDir::new("existing");
    let db = format!("--db={}", dir.join("db").display());
    for (flags, found) in [
        (["--benchmarks=fillseq,readrandom", "--use_existing_db=0"], "(100 of 100 found)"),
        (["--benchmarks=readrandom", "--use_existing_db=1"], "(100 of 100 found)"),
        (["--benchmarks=readrandom", "--use_existing_db=0"], "(0 of 100 found)"),
    ] {
        let output = bench(&[flags[0], flags[1], "--num=100", &db]);
        let text = String::from_utf8_lossy(&output.stdout);
        assert!(text.contains(found), "{flags:?}: {text}");
    }
}

#[test]
fn ycsb_workloads_find_every_record_and_insert_their_share() {
    for distribution in ["", "uniform", "zipfian", "latest"] {
        let distribution_flag = format!("--request_distribution={distribution}");
        let flags = [
            "--benchmarks=ycsbload,ycsba,ycsbb,ycsbc,ycsbd,ycsbf,ycsbg,ycsbh,reopen,ycsbc",
            "--num=2000",
            "--operations=3001",
            "--threads=3",
            "--mode=everysec",
            "--write_buffer_size=65536",
            "--histogram=1",
            &distribution_flag,
        ];
        let results = results(&format!("ycsb-{distribution}"), &flags);
        assert_eq!(results[0]["operations"], 2000);
        for result in &results[1..] {
            let (name, operations, found, asked) = counts(result);
            assert_eq!((operations, found), (3001, asked), "{name} {distribution}");
            let figure = |figure: &str| result["figures"][figure].as_f64();
            let share = |kind: &str| figure(kind).unwrap_or(0.0) / 3001.0;
            let expected = match name {
                "ycsba" => [0.5, 0.5, 0.0, 0.0],
                "ycsbb" => [0.95, 0.05, 0.0, 0.0],
                "ycsbc" => [1.0, 0.0, 0.0, 0.0],
                "ycsbd" => [0.95, 0.0, 0.05, 0.0],
                "ycsbf" => [0.5, 0.0, 0.0, 0.5],
                "ycsbg" => [0.0, 0.0, 1.0, 0.0],
                _ => [0.5, 0.0, 0.5, 0.0],
            };
            for (kind, share_expected) in
                ["reads", "updates", "inserts", "read-modify-writes"].into_iter().zip(expected)
            {
                let got = share(kind);
                assert!((got - share_expected).abs() < 0.05, "{name}: {got} {kind}");
            }
            let hits = figure("dram hit ratio");
            assert_eq!(hits.is_some(), name != "ycsbg", "{name} reads");
            assert!(hits.is_none_or(|ratio| (0.0..=1.0).contains(&ratio)), "{name}: {hits:?}");
        }
    }
}

#[test]
fn the_log_may_lie_elsewhere_and_is_found_again() {
    let dir = TempDir::new("wal");
    let flags = [
        format!("--db={}", dir.join("db").display()),
        format!("--wal_dir={}", dir.join("log").display()),
        "--wal_profile=nvram".into(),
        "--num=300".into(),
        "--mode=always".into(),
    ];
    let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    flags.push("--benchmarks=ycsbload");
    assert!(bench(&flags).status.success());
    let files = std::fs::read_dir(dir.join("log/appendonlydir")).expect("the log is there");
    assert!(files.count() > 0);
    flags.extend(["--use_existing_db=1", "--benchmarks=recover,ycsbc"]);
    let output = bench(&flags);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("(300 of 300 found)"), "{text}");
    flags.push("--wal_profile=floppy");
    let output = bench(&flags);
    assert!(String::from_utf8_lossy(&output.stderr).contains("floppy"));
}

#[test]
fn memtables_in_persistent_memory_are_found_again() {
    let dir = TempDir::new("wbl");
    let flags = [
        format!("--db={}", dir.join("db").display()),
        format!("--pmem_dir={}", dir.join("pool").display()),
        "--pmem_profile=optane-pmem".into(),
        "--num=300".into(),
        "--mode=wbl".into(),
        "--write_buffer_size=1048576".into(),
    ];
    let mut flags: Vec<&str> = flags.iter().map(String::as_str).collect();
    flags.push("--benchmarks=ycsbload,ycsba");
    let output = bench(&flags);
    let errors = String::from_utf8_lossy(&output.stderr);
    if errors.contains("libpmem") {
        println!("skipped: {errors}");
        return;
    }
    assert!(output.status.success(), "{errors}");
    flags.extend(["--use_existing_db=1", "--benchmarks=recover,ycsbc"]);
    let output = bench(&flags);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("(300 of 300 found)") && text.contains("records kept"), "{text}");
    flags.extend(["--use_existing_db=0", "--benchmarks=ycsbc"]);
    let output = bench(&flags);
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(text.contains("(0 of 300 found)"), "an empty store begins with an empty pool: {text}");
}
