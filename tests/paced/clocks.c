/* Clocks that run RATE times as fast, for a process that this library is preloaded into.
 *
 * Clocks that only count (monotonic, processor time) are scaled, and so are the moments until which a
 * thread waits for a lock or sleeps. So the process sees a machine that computes RATE times as slowly and
 * is consistent otherwise. The date is left alone: files carry it, and the kernel writes it there. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/epoll.h>
#include <time.h>

#define NS_PER_S 1000000000

/* What waits by the clock of the date says a moment after this one; no machine is up for so long. */
#define LONGEST_UPTIME_S 1000000000

static double rate = 1;

static int (*real_gettime)(clockid_t, struct timespec *);
static int (*real_nanosleep)(clockid_t, int, const struct timespec *, struct timespec *);
static int (*real_sem_clockwait)(sem_t *, clockid_t, const struct timespec *);
static int (*real_cond_clockwait)(pthread_cond_t *, pthread_mutex_t *, clockid_t, const struct timespec *);
static int (*real_poll)(struct pollfd *, nfds_t, int);
static int (*real_epoll_wait)(int, struct epoll_event *, int, int);
static int (*real_cond_timedwait)(pthread_cond_t *, pthread_mutex_t *, const struct timespec *);

__attribute__((constructor)) static void find_functions(void)
{
    const char *text = getenv("SSLM_TEST_CLOCK_RATE");
    rate = text ? atof(text) : 1;
    if (!(rate > 0))
        abort();
    real_gettime = dlsym(RTLD_NEXT, "clock_gettime");
    real_nanosleep = dlsym(RTLD_NEXT, "clock_nanosleep");
    real_sem_clockwait = dlsym(RTLD_NEXT, "sem_clockwait");
    real_cond_clockwait = dlsym(RTLD_NEXT, "pthread_cond_clockwait");
    real_poll = dlsym(RTLD_NEXT, "poll");
    real_epoll_wait = dlsym(RTLD_NEXT, "epoll_wait");
    /* Of two versions under one name, dlsym may return the one of old conditions. */
    real_cond_timedwait = dlvsym(RTLD_NEXT, "pthread_cond_timedwait", "GLIBC_2.3.2");
    if (!real_cond_timedwait)
        real_cond_timedwait = dlsym(RTLD_NEXT, "pthread_cond_timedwait");
}

static struct timespec scaled(const struct timespec *time, double factor)
{
    int64_t ns = (int64_t)((long double)factor * ((long double)time->tv_sec * NS_PER_S + time->tv_nsec));
    return (struct timespec){.tv_sec = ns / NS_PER_S, .tv_nsec = ns % NS_PER_S};
}

int clock_gettime(clockid_t clock, struct timespec *time)
{
    if (!real_gettime)
        find_functions();
    int failed = real_gettime(clock, time);
    if (!failed && clock != CLOCK_REALTIME && clock != CLOCK_REALTIME_COARSE)
        *time = scaled(time, rate);
    return failed;
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
    struct timespec real = clock == CLOCK_REALTIME ? *time : scaled(time, 1 / rate);
    return real_nanosleep(clock, flags, &real, left);
}

int sem_clockwait(sem_t *semaphore, clockid_t clock, const struct timespec *until)
{
    struct timespec real = clock == CLOCK_REALTIME ? *until : scaled(until, 1 / rate);
    return real_sem_clockwait(semaphore, clock, &real);
}

int pthread_cond_clockwait(
    pthread_cond_t *condition, pthread_mutex_t *mutex, clockid_t clock, const struct timespec *until)
{
    struct timespec real = clock == CLOCK_REALTIME ? *until : scaled(until, 1 / rate);
    return real_cond_clockwait(condition, mutex, clock, &real);
}

int pthread_cond_timedwait(pthread_cond_t *condition, pthread_mutex_t *mutex, const struct timespec *until)
{
    /* A condition does not tell its clock. */
    struct timespec real = until->tv_sec > LONGEST_UPTIME_S ? *until : scaled(until, 1 / rate);
    return real_cond_timedwait(condition, mutex, &real);
}

static int scaled_ms(int timeout_ms)
{
    /* Rounded up: who waits too short a time waits again. A negative time is forever. */
    return timeout_ms <= 0 ? timeout_ms : (int)(timeout_ms / rate) + 1;
}

int poll(struct pollfd *files, nfds_t count, int timeout_ms)
{
    return real_poll(files, count, scaled_ms(timeout_ms));
}

int epoll_wait(int set, struct epoll_event *events, int count, int timeout_ms)
{
    return real_epoll_wait(set, events, count, scaled_ms(timeout_ms));
}
