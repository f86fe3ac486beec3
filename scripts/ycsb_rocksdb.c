/* flsm-bench's YCSB on RocksDB, over its C interface: the same workloads, keys, generators and constants
 * (engine/src/bin/flsm-bench/ycsb, where they are explained and tested), since db_bench has no YCSB. scripts/study_wbl.py builds
 * and runs it.
 *
 *   ycsb_rocksdb DIRECTORY LOG_DIRECTORY RECORDS OPERATIONS SECONDS THREADS VALUE_BYTES SYNC WRITE_BUFFER CACHE SEED WORKLOADS
 *
 * Loads RECORDS, then runs each letter of WORKLOADS for OPERATIONS or, if that is not 0, SECONDS, with the background at rest
 * before it. SYNC 1 syncs the log with each write. Prints one JSON object with flsm-bench's names, of all threads together.
 */
#include "rocksdb_bench.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>

void rocksdb_options_set_wal_dir(opaque *, const char *);
void rocksdb_options_set_max_write_buffer_number(opaque *, int);
void rocksdb_options_set_min_level_to_compress(opaque *, int);
void rocksdb_writeoptions_set_sync(opaque *, unsigned char);

enum { THREADS_MAX = 64, LZ4 = 4, MEMTABLES = 3, STEPS = 64, BUCKETS = 64 * STEPS };

#define THETA 0.99
#define SCRAMBLED_ITEMS 1e10
#define SCRAMBLED_ZETA 26.46902820178302
#define IDLE UINT64_MAX

enum operation { READ, UPDATE, INSERT, READ_MODIFY_WRITE };

struct workload {
    char letter;
    /* Percent; the rest reads, modifies and writes. */
    unsigned read, update, insert;
    int is_latest;
};

static const struct workload workloads[] = {
    {'a', 50, 50, 0, 0}, {'b', 95, 5, 0, 0},  {'c', 100, 0, 0, 0}, {'d', 95, 0, 5, 1},
    {'f', 50, 0, 0, 0},  {'g', 0, 0, 100, 0}, {'h', 50, 0, 50, 0},
};

/* Ranks, 0 the most frequent (Gray et al., 1994). */
struct zipfian {
    double items, zeta, eta;
};

struct worker {
    pthread_t thread;
    unsigned number;
    uint64_t seed;
    struct zipfian zipfian;
    uint64_t done;
    uint64_t latencies[BUCKETS];
    uint64_t longest_ns;
};

static struct {
    db *store;
    opaque *put, *get;
    const char *text;
    size_t value_bytes;
    uint64_t records, operations;
    double seconds;
    unsigned threads;
} bench;

/* The run that is being made; NULL while records are loaded. */
static const struct workload *workload;
static double begun;
/* Records that there may be at the end of the run. */
static uint64_t span;
static _Atomic uint64_t next_record;
/* By thread: the record it is writing, or one before that. */
static _Atomic uint64_t writing[THREADS_MAX];

static uint64_t fnv64(uint64_t number) {
    uint64_t hash = 0xCBF29CE484222325;
    for (int i = 0; i < 8; i++)
        hash = (hash ^ ((number >> (8 * i)) & 0xff)) * 1099511628211;
    return (int64_t)hash < 0 ? -hash : hash;
}

static double zeta(double from, double to) {
    double sum = 0;
    for (double rank = from; rank < to; rank++)
        sum += pow(rank + 1, -THETA);
    return sum;
}

static void set_eta(struct zipfian *zipfian) {
    zipfian->eta = (1 - pow(2 / zipfian->items, 1 - THETA)) / (1 - zeta(0, 2) / zipfian->zeta);
}

static uint64_t rank_of(const struct zipfian *zipfian) {
    double u = (double)(next_random() >> 11) / 9007199254740992.0, at = u * zipfian->zeta;
    if (at < 1)
        return 0;
    if (at < 1 + pow(0.5, THETA))
        return 1;
    uint64_t rank = (uint64_t)(zipfian->items * pow(zipfian->eta * u - zipfian->eta + 1, 1 / (1 - THETA)));
    return rank < zipfian->items ? rank : (uint64_t)zipfian->items - 1;
}

/* All records below it can be read. */
static uint64_t limit(void) {
    uint64_t lowest = atomic_load(&next_record);
    for (unsigned i = 0; i < bench.threads; i++) {
        uint64_t written = atomic_load(&writing[i]);
        lowest = written < lowest ? written : lowest;
    }
    return lowest;
}

static uint64_t choose(struct zipfian *zipfian) {
    uint64_t end = limit();
    if (workload->is_latest) {
        if ((double)end > zipfian->items) {
            zipfian->zeta += zeta(zipfian->items, (double)end);
            zipfian->items = (double)end;
            set_eta(zipfian);
        }
        uint64_t rank = rank_of(zipfian);
        return end - 1 - (rank < end ? rank : end - 1);
    }
    for (;;) {
        uint64_t number = fnv64(rank_of(zipfian)) % (span > end ? span : end);
        if (number < end)
            return number;
    }
}

static void put(uint64_t record) {
    char key[KEY_BYTES], *error = NULL;
    write_key(key, fnv64(record));
    rocksdb_put(bench.store, bench.put, key, KEY_BYTES, bench.text + below(TEXT_BYTES), bench.value_bytes, &error);
    check(error);
}

static void get(uint64_t record) {
    char key[KEY_BYTES], *error = NULL;
    size_t length = 0;
    write_key(key, fnv64(record));
    opaque *slice = rocksdb_get_pinned(bench.store, bench.get, key, KEY_BYTES, &error);
    check(error);
    if (!slice || !rocksdb_pinnableslice_value(slice, &length) || length != bench.value_bytes) {
        fprintf(stderr, "record %" PRIu64 " was not found\n", record);
        exit(1);
    }
    rocksdb_pinnableslice_destroy(slice);
}

static enum operation operation_at(unsigned percent) {
    if (percent < workload->read)
        return READ;
    if (percent < workload->read + workload->update)
        return UPDATE;
    return percent < workload->read + workload->update + workload->insert ? INSERT : READ_MODIFY_WRITE;
}

static void run_one(struct worker *worker) {
    enum operation operation = operation_at((unsigned)below(100));
    if (operation == INSERT) {
        /* A bound first, so that no reader sees the counter moved on and nobody writing. */
        atomic_store(&writing[worker->number], atomic_load(&next_record));
        uint64_t record = atomic_fetch_add(&next_record, 1);
        atomic_store(&writing[worker->number], record);
        put(record);
        atomic_store(&writing[worker->number], IDLE);
        return;
    }
    uint64_t record = choose(&worker->zipfian);
    if (operation != UPDATE)
        get(record);
    if (operation != READ)
        put(record);
}

/* Nanoseconds up to 128 one by one, 64 steps to each doubling behind that. */
static void note(struct worker *worker, uint64_t ns) {
    unsigned doubling = 63 - (unsigned)__builtin_clzll(ns | STEPS);
    worker->latencies[(doubling - 6) * STEPS + (ns >> (doubling - 6))]++;
    worker->longest_ns = ns > worker->longest_ns ? ns : worker->longest_ns;
}

static double middle_us(unsigned bucket) {
    if (bucket < 2 * STEPS)
        return bucket / 1e3;
    unsigned doubling = bucket / STEPS - 1 + 6;
    return ((double)(bucket % STEPS + STEPS) + 0.5) * (double)(1ULL << (doubling - 6)) / 1e3;
}

static void *work(void *argument) {
    struct worker *worker = argument;
    state = worker->seed;
    uint64_t all = workload ? bench.operations : bench.records;
    uint64_t count = all / bench.threads + (worker->number < all % bench.threads);
    double last = seconds(CLOCK_MONOTONIC);
    for (uint64_t i = 0; i < count; i++) {
        if (workload)
            run_one(worker);
        else
            put(worker->number + i * bench.threads);
        double now = seconds(CLOCK_MONOTONIC);
        note(worker, (uint64_t)((now - last) * 1e9));
        last = now;
        worker->done++;
        if (workload && bench.seconds > 0 && now - begun > bench.seconds)
            break;
    }
    return NULL;
}

static double percentile_us(const uint64_t *latencies, uint64_t count, double share) {
    uint64_t passed = 0;
    for (unsigned i = 0; i < BUCKETS; i++) {
        passed += latencies[i];
        if ((double)passed >= share * (double)count)
            return middle_us(i);
    }
    return 0;
}

/* Runs the threads, waits for the background, and tells. */
static void run(const char *name, uint64_t seed, int is_first) {
    static struct worker workers[THREADS_MAX];
    struct zipfian zipfian = {SCRAMBLED_ITEMS, SCRAMBLED_ZETA, 0};
    uint64_t there = atomic_load(&next_record);
    if (workload) {
        span = there + 2 * (bench.operations * workload->insert / 100);
        if (workload->is_latest)
            zipfian = (struct zipfian){(double)there, zeta(0, (double)there), 0};
        set_eta(&zipfian);
    }
    double cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    begun = seconds(CLOCK_MONOTONIC);
    for (unsigned i = 0; i < bench.threads; i++) {
        workers[i] = (struct worker){.number = i, .seed = fnv64(seed * THREADS_MAX + i) | 1, .zipfian = zipfian};
        if (pthread_create(&workers[i].thread, NULL, work, &workers[i])) {
            fprintf(stderr, "no thread\n");
            exit(1);
        }
    }
    static uint64_t latencies[BUCKETS];
    memset(latencies, 0, sizeof latencies);
    uint64_t done = 0, longest_ns = 0;
    for (unsigned i = 0; i < bench.threads; i++) {
        pthread_join(workers[i].thread, NULL);
        done += workers[i].done;
        longest_ns = workers[i].longest_ns > longest_ns ? workers[i].longest_ns : longest_ns;
        for (unsigned bucket = 0; bucket < BUCKETS; bucket++)
            latencies[bucket] += workers[i].latencies[bucket];
    }
    double took = seconds(CLOCK_MONOTONIC) - begun;
    cpu = seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu;
    printf("%s{\"name\": \"ycsb%s\", \"threads\": %u, \"operations\": %" PRIu64 ", \"seconds\": %.6f, "
           "\"ops_per_sec\": %.3f, \"cpu_us_per_op\": %.6f, \"latency_us\": {\"p50\": %.3f, \"p99\": %.3f, "
           "\"p99_9\": %.3f, \"max\": %.3f}}",
           is_first ? "" : ", ", name, bench.threads, done, took, (double)done / took, cpu * 1e6 / (double)done,
           percentile_us(latencies, done, 0.5), percentile_us(latencies, done, 0.99),
           percentile_us(latencies, done, 0.999), (double)longest_ns / 1e3);
    wait_for_background(bench.store);
}

int main(int count, char **argument) {
    if (count != 13) {
        fprintf(stderr, "usage: ycsb_rocksdb DIRECTORY LOG_DIRECTORY RECORDS OPERATIONS SECONDS THREADS VALUE_BYTES SYNC "
                        "WRITE_BUFFER CACHE SEED WORKLOADS\n");
        return 2;
    }
    bench.records = strtoull(argument[3], NULL, 10);
    bench.operations = strtoull(argument[4], NULL, 10);
    bench.seconds = strtod(argument[5], NULL);
    bench.threads = (unsigned)strtoul(argument[6], NULL, 10);
    bench.value_bytes = strtoull(argument[7], NULL, 10);
    if (!bench.records || !bench.threads || bench.threads > THREADS_MAX) {
        fprintf(stderr, "records: at least 1; threads: 1 to %d\n", THREADS_MAX);
        return 2;
    }
    opaque *options = rocksdb_options_create(), *tables = rocksdb_block_based_options_create();
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_error_if_exists(options, 1);
    rocksdb_options_set_wal_dir(options, argument[2]);
    rocksdb_options_set_write_buffer_size(options, strtoull(argument[9], NULL, 10));
    rocksdb_options_set_max_write_buffer_number(options, MEMTABLES);
    rocksdb_options_set_compression(options, LZ4);
    rocksdb_options_set_min_level_to_compress(options, 1);
    rocksdb_options_set_max_background_jobs(options, 2);
    rocksdb_block_based_options_set_block_cache(tables, rocksdb_cache_create_lru(strtoull(argument[10], NULL, 10)));
    rocksdb_block_based_options_set_filter_policy(tables, rocksdb_filterpolicy_create_bloom(10));
    rocksdb_options_set_block_based_table_factory(options, tables);
    char *error = NULL;
    bench.store = rocksdb_open(options, argument[1], &error);
    check(error);
    bench.put = rocksdb_writeoptions_create();
    rocksdb_writeoptions_set_sync(bench.put, argument[8][0] == '1');
    bench.get = rocksdb_readoptions_create();
    bench.text = random_text(bench.value_bytes);
    for (unsigned i = 0; i < THREADS_MAX; i++)
        atomic_store(&writing[i], IDLE);

    printf("{\"results\": [");
    uint64_t seed = strtoull(argument[11], NULL, 10) * 32;
    run("load", seed, 1);
    atomic_store(&next_record, bench.records);
    for (const char *letter = argument[12]; *letter; letter++) {
        for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++) {
            if (workloads[i].letter == *letter) {
                workload = &workloads[i];
                run((const char[]){*letter, 0}, ++seed, 0);
            }
        }
    }
    printf("]}\n");
    rocksdb_close(bench.store);
    return 0;
}
