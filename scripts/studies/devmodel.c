/* nbdkit plugin: a block device with a timing model, its data in a sparse file (on tmpfs).
 *
 *   nbdkit ./devmodel.so file=PATH size=BYTES read_us= write_us= read_mb_s= write_mb_s= position_us= turn_us=
 *          sync_us= cache_bytes= channels=
 *
 * One medium is busy until some instant. A read or write reserves it for the positioning and the bytes by the
 * bandwidth. A write that fits the drive's cache returns at once and leaves its time reserved; a flush waits until
 * the medium is idle and for what a flush costs. Positioning is a square-root seek curve over the distance from
 * where the last operation ended, plus a random part of a turn; the drive orders what is in its cache, so a
 * cached write pays a quarter. No queue of the device's own, no garbage collection of flash. */
#define NBDKIT_API_VERSION 2
#include <fcntl.h>
#include <math.h>
#include <nbdkit-plugin.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#define THREAD_MODEL NBDKIT_THREAD_MODEL_PARALLEL

/* Below this distance the head stays on its track. */
#define TRACK_BYTES (4u << 20)
/* Sleeping is too coarse below it. */
#define SPIN_S 60e-6
/* Mean of sqrt(|x - y|) for x, y of [0, 1): the curve's mean is the stated positioning time. */
#define MEAN_ROOT 0.533
#define SHORTEST_SEEK 0.15

static char *file;
static char *base;
static uint64_t size, head;
static double read_us, write_us, read_mb_s, write_mb_s, position_us, turn_us, sync_us, cache_bytes;
static double channels = 1;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static double busy_until_s;
static unsigned random_state = 1;

static const struct { const char *name; double *value; } numbers[] = {
  { "read_us", &read_us },         { "write_us", &write_us },       { "read_mb_s", &read_mb_s },
  { "write_mb_s", &write_mb_s },   { "position_us", &position_us }, { "turn_us", &turn_us },
  { "sync_us", &sync_us },         { "cache_bytes", &cache_bytes }, { "channels", &channels },
};

static int config (const char *key, const char *value)
{
  for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
    if (strcmp (key, numbers[i].name) == 0) {
      *numbers[i].value = atof (value);
      return 0;
    }
  if (strcmp (key, "file") == 0)
    return (file = nbdkit_absolute_path (value)) ? 0 : -1;
  if (strcmp (key, "size") == 0) {
    int64_t bytes = nbdkit_parse_size (value);
    size = bytes;
    return bytes < 0 ? -1 : 0;
  }
  nbdkit_error ("unknown parameter %s", key);
  return -1;
}

static int after_fork (void)
{
  int fd = open (file, O_RDWR | O_CREAT, 0600);
  if (fd < 0 || ftruncate (fd, size) != 0) {
    nbdkit_error ("%s: %m", file);
    return -1;
  }
  base = mmap (NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close (fd);
  return base == MAP_FAILED ? -1 : 0;
}

static double now_s (void)
{
  struct timespec t;
  clock_gettime (CLOCK_MONOTONIC, &t);
  return t.tv_sec + t.tv_nsec * 1e-9;
}

static void wait_until (double instant_s)
{
  double left = instant_s - now_s ();
  if (left > SPIN_S) {
    struct timespec t = { (time_t) instant_s, (long) ((instant_s - (time_t) instant_s) * 1e9) };
    clock_nanosleep (CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL);
  } else
    while (now_s () < instant_s)
      ;
}

/* Seconds to get the head to `offset`; called with the lock held. */
static double positioning_s (uint64_t offset)
{
  if (position_us <= 0 && turn_us <= 0)
    return 0;
  double distance = fabs ((double) offset - (double) head);
  if (distance < TRACK_BYTES)
    return offset > head ? 0.2 * distance / (read_mb_s * 1e6) : 0;
  random_state = random_state * 1103515245u + 12345u;
  double shortest = SHORTEST_SEEK * position_us;
  double seek = shortest + (position_us - shortest) / MEAN_ROOT * sqrt (distance / size);
  double turn = turn_us * 2 * ((random_state >> 8) & 0xffff) / 65536.0;
  return (seek + turn) * 1e-6;
}

/* Reserves the medium; the instant at which the caller may go on. */
static double reserve (int is_write, uint64_t offset, uint32_t count, int force_unit_access)
{
  double bandwidth = (is_write ? write_mb_s : read_mb_s) * 1e6;
  double transfer = bandwidth > 0 ? count / bandwidth : 0;
  double latency = (is_write ? write_us : read_us) * 1e-6;
  double now = now_s (), done;
  pthread_mutex_lock (&lock);
  if (busy_until_s < now)
    busy_until_s = now;
  double position = positioning_s (offset);
  head = offset + count;
  if (is_write && cache_bytes > 0 && !force_unit_access) {
    busy_until_s += transfer + position / 4;
    double queued = busy_until_s - now, room = bandwidth > 0 ? cache_bytes / bandwidth : 0;
    done = now + latency + (queued > room ? queued - room : 0);
  } else {
    busy_until_s += position + transfer;
    done = busy_until_s + latency;
    if (latency / channels > transfer && position == 0)
      busy_until_s += latency / channels - transfer;
    if (is_write && force_unit_access)
      done += sync_us * 1e-6;
  }
  pthread_mutex_unlock (&lock);
  return done;
}

static void *dm_open (int readonly)
{
  (void) readonly;
  prctl (PR_SET_TIMERSLACK, 1UL, 0, 0, 0);
  return NBDKIT_HANDLE_NOT_NEEDED;
}

static int64_t dm_get_size (void *handle) { (void) handle; return size; }
static int yes (void *handle) { (void) handle; return 1; }
static int dm_can_fua (void *handle) { (void) handle; return NBDKIT_FUA_NATIVE; }

static int dm_pread (void *handle, void *buf, uint32_t count, uint64_t offset, uint32_t flags)
{
  (void) handle; (void) flags;
  double done = reserve (0, offset, count, 0);
  memcpy (buf, base + offset, count);
  wait_until (done);
  return 0;
}

static int dm_pwrite (void *handle, const void *buf, uint32_t count, uint64_t offset, uint32_t flags)
{
  (void) handle;
  double done = reserve (1, offset, count, flags & NBDKIT_FLAG_FUA);
  memcpy (base + offset, buf, count);
  wait_until (done);
  return 0;
}

static int dm_flush (void *handle, uint32_t flags)
{
  (void) handle; (void) flags;
  pthread_mutex_lock (&lock);
  double now = now_s (), done = (busy_until_s > now ? busy_until_s : now) + sync_us * 1e-6;
  if (position_us > 0)
    busy_until_s = done;
  pthread_mutex_unlock (&lock);
  wait_until (done);
  return 0;
}

static int dm_zero (void *handle, uint32_t count, uint64_t offset, uint32_t flags)
{
  (void) handle; (void) flags;
  memset (base + offset, 0, count);
  return 0;
}

static struct nbdkit_plugin plugin = {
  .name = "devmodel",
  .config = config,
  .after_fork = after_fork,
  .open = dm_open,
  .get_size = dm_get_size,
  .can_multi_conn = yes,
  .can_flush = yes,
  .can_fua = dm_can_fua,
  .pread = dm_pread,
  .pwrite = dm_pwrite,
  .flush = dm_flush,
  .zero = dm_zero,
};
NBDKIT_REGISTER_PLUGIN (plugin)
