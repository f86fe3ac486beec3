/* What a held snapshot costs RocksDB: flsm-bench's `heldsnapshot`, over RocksDB's C interface, because db_bench has no
 * benchmark that writes while it holds a snapshot. scripts/study_mvcc.py builds and runs it.
 *
 *   held_rocksdb DIRECTORY KEYS VALUE_BYTES OVERWRITES HELD WRITE_BUFFER CACHE READS
 *
 * Prints the figures as one JSON object with flsm-bench's names.
 */
#include "rocksdb_bench.h"

opaque *rocksdb_flushoptions_create(void);
void rocksdb_flush(db *, const opaque *, char **);
opaque *rocksdb_create_iterator(db *, const opaque *);
void rocksdb_iter_destroy(opaque *);
unsigned char rocksdb_iter_valid(const opaque *);
void rocksdb_iter_seek_to_first(opaque *);
void rocksdb_iter_seek(opaque *, const char *, size_t);
void rocksdb_iter_next(opaque *);
const char *rocksdb_iter_value(const opaque *, size_t *);
const opaque *rocksdb_create_snapshot(db *);
void rocksdb_release_snapshot(db *, const opaque *);

enum { SEEK_NEXTS = 10 };

/* Brings everything into tables and waits until they are in order. */
static void settle(db *store) {
    char *error = NULL;
    opaque *flush = rocksdb_flushoptions_create();
    rocksdb_flush(store, flush, &error);
    check(error);
    wait_for_background(store);
}

static void show(const char *name, double wall_s, double cpu_s, uint64_t operations) {
    printf("\"%s_us\": %.6f, \"%s_cpu_us\": %.6f, ", name, wall_s * 1e6 / (double)operations, name,
           cpu_s * 1e6 / (double)operations);
}

int main(int count, char **argument) {
    if (count != 9) {
        fprintf(stderr, "usage: held_rocksdb DIRECTORY KEYS VALUE_BYTES OVERWRITES HELD WRITE_BUFFER CACHE READS\n");
        return 2;
    }
    uint64_t keys = strtoull(argument[2], NULL, 10), overwrites = strtoull(argument[4], NULL, 10);
    size_t value_bytes = strtoull(argument[3], NULL, 10);
    int held = atoi(argument[5]);
    uint64_t reads = strtoull(argument[8], NULL, 10);
    opaque *options = rocksdb_options_create(), *tables = rocksdb_block_based_options_create();
    rocksdb_options_set_create_if_missing(options, 1);
    rocksdb_options_set_error_if_exists(options, 1);
    rocksdb_options_set_write_buffer_size(options, strtoull(argument[6], NULL, 10));
    rocksdb_options_set_compression(options, 0);
    rocksdb_options_set_max_background_jobs(options, 2);
    rocksdb_block_based_options_set_block_cache(tables, rocksdb_cache_create_lru(strtoull(argument[7], NULL, 10)));
    rocksdb_block_based_options_set_filter_policy(tables, rocksdb_filterpolicy_create_bloom(10));
    rocksdb_options_set_block_based_table_factory(options, tables);
    char *error = NULL, key[KEY_BYTES];
    db *store = rocksdb_open(options, argument[1], &error);
    check(error);
    opaque *put = rocksdb_writeoptions_create(), *get = rocksdb_readoptions_create();
    char *text = random_text(value_bytes);

    for (uint64_t number = 0; number < keys; number++) {
        write_key(key, number);
        rocksdb_put(store, put, key, KEY_BYTES, text + below(TEXT_BYTES), value_bytes, &error);
        check(error);
    }
    settle(store);
    uint64_t filled = property(store, "rocksdb.live-sst-files-size");
    const opaque *snapshot = held ? rocksdb_create_snapshot(store) : NULL;

    double wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
    for (uint64_t i = 0; i < overwrites * keys; i++) {
        write_key(key, below(keys));
        rocksdb_put(store, put, key, KEY_BYTES, text + below(TEXT_BYTES), value_bytes, &error);
        check(error);
    }
    double written = seconds(CLOCK_MONOTONIC) - wall;
    settle(store);
    printf("{\"held_snapshot\": %d, ", held);
    show("write", written, seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu, overwrites * keys);

    /* Once for the caches, once measured. */
    for (int measured = 0; measured < 2; measured++) {
        uint64_t found = 0, bytes = 0;
        wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
        for (uint64_t i = 0; i < reads; i++) {
            write_key(key, below(keys));
            opaque *slice = rocksdb_get_pinned(store, get, key, KEY_BYTES, &error);
            check(error);
            size_t length = 0;
            found += slice && rocksdb_pinnableslice_value(slice, &length) && length == value_bytes;
            if (slice)
                rocksdb_pinnableslice_destroy(slice);
        }
        if (found != reads) {
            fprintf(stderr, "%" PRIu64 " of %" PRIu64 " keys found\n", found, reads);
            return 1;
        }
        if (measured)
            show("readrandom", seconds(CLOCK_MONOTONIC) - wall, seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu, reads);

        wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
        opaque *walk = rocksdb_create_iterator(store, get);
        uint64_t steps = 0;
        for (rocksdb_iter_seek_to_first(walk); rocksdb_iter_valid(walk); rocksdb_iter_next(walk)) {
            size_t length;
            bytes += (uint64_t)*rocksdb_iter_value(walk, &length) + length;
            steps++;
        }
        rocksdb_iter_destroy(walk);
        if (steps != keys || bytes == 0) {
            fprintf(stderr, "%" PRIu64 " of %" PRIu64 " keys walked\n", steps, keys);
            return 1;
        }
        if (measured)
            show("readseq", seconds(CLOCK_MONOTONIC) - wall, seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu, steps);

        wall = seconds(CLOCK_MONOTONIC), cpu = seconds(CLOCK_PROCESS_CPUTIME_ID);
        for (uint64_t i = 0; i < reads; i++) {
            write_key(key, below(keys));
            walk = rocksdb_create_iterator(store, get);
            rocksdb_iter_seek(walk, key, KEY_BYTES);
            for (int step = 0; step < SEEK_NEXTS && rocksdb_iter_valid(walk); step++)
                rocksdb_iter_next(walk);
            rocksdb_iter_destroy(walk);
        }
        if (measured)
            show("seekrandom", seconds(CLOCK_MONOTONIC) - wall, seconds(CLOCK_PROCESS_CPUTIME_ID) - cpu, reads);
    }
    printf("\"filled_tree_bytes\": %" PRIu64 ", \"tree_bytes\": %" PRIu64 "}\n", filled,
           property(store, "rocksdb.live-sst-files-size"));
    if (snapshot)
        rocksdb_release_snapshot(store, snapshot);
    rocksdb_close(store);
    return 0;
}
