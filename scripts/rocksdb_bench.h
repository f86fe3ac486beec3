/* Parts the programs share that drive RocksDB over its C interface (held_rocksdb.c, ycsb_rocksdb.c). Declared is the part of the
 * interface that is used, so that no header is needed; it has been the same since RocksDB 5. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct db db;
typedef struct opaque opaque;

opaque *rocksdb_options_create(void);
void rocksdb_options_set_create_if_missing(opaque *, unsigned char);
void rocksdb_options_set_error_if_exists(opaque *, unsigned char);
void rocksdb_options_set_write_buffer_size(opaque *, size_t);
void rocksdb_options_set_compression(opaque *, int);
void rocksdb_options_set_max_background_jobs(opaque *, int);
void rocksdb_options_set_block_based_table_factory(opaque *, opaque *);
opaque *rocksdb_block_based_options_create(void);
void rocksdb_block_based_options_set_block_cache(opaque *, opaque *);
void rocksdb_block_based_options_set_filter_policy(opaque *, opaque *);
opaque *rocksdb_cache_create_lru(size_t);
opaque *rocksdb_filterpolicy_create_bloom(double);
db *rocksdb_open(const opaque *, const char *, char **);
void rocksdb_close(db *);
opaque *rocksdb_writeoptions_create(void);
opaque *rocksdb_readoptions_create(void);
void rocksdb_put(db *, const opaque *, const char *, size_t, const char *, size_t, char **);
opaque *rocksdb_get_pinned(db *, const opaque *, const char *, size_t, char **);
const char *rocksdb_pinnableslice_value(const opaque *, size_t *);
void rocksdb_pinnableslice_destroy(opaque *);
int rocksdb_property_int(db *, const char *, uint64_t *);

enum { KEY_BYTES = 16, TEXT_BYTES = 1 << 20, QUIET_LOOKS = 15 };

static _Thread_local uint64_t state = 88172645463325252ULL;

/* xorshift64*. */
static uint64_t next_random(void) {
    state ^= state >> 12;
    state ^= state << 25;
    state ^= state >> 27;
    return state * 0x2545F4914F6CDD1DULL;
}

static uint64_t below(uint64_t n) {
    return (uint64_t)(((unsigned __int128)next_random() * n) >> 64);
}

/* Letters of which no two values are alike; values are pieces of it. */
static char *random_text(size_t value_bytes) {
    char *text = malloc(TEXT_BYTES + value_bytes);
    if (!text) {
        fprintf(stderr, "no memory\n");
        exit(1);
    }
    for (size_t i = 0; i < TEXT_BYTES + value_bytes; i++)
        text[i] = (char)(' ' + below(95));
    return text;
}

static double seconds(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void check(char *error) {
    if (error) {
        fprintf(stderr, "RocksDB: %s\n", error);
        exit(1);
    }
}

static void write_key(char *key, uint64_t number) {
    for (int i = 0; i < 8; i++)
        key[i] = (char)(number >> (56 - 8 * i));
    memset(key + 8, '0', KEY_BYTES - 8);
}

static uint64_t property(db *store, const char *name) {
    uint64_t value = 0;
    rocksdb_property_int(store, name, &value);
    return value;
}

/* Waits until flush and compaction have had nothing to do for a while. */
static void wait_for_background(db *store) {
    static const char *const busy[] = {"rocksdb.mem-table-flush-pending", "rocksdb.num-running-flushes",
                                       "rocksdb.compaction-pending", "rocksdb.num-running-compactions"};
    for (int quiet = 0; quiet < QUIET_LOOKS;) {
        uint64_t work = 0;
        for (size_t i = 0; i < sizeof busy / sizeof *busy; i++)
            work += property(store, busy[i]);
        quiet = work ? 0 : quiet + 1;
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    }
}
