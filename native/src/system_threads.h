/* What the pool needs of the operating system: threads, and sleep until a word changes. */
#ifndef SSLM_SYSTEM_THREADS_H
#define SSLM_SYSTEM_THREADS_H

#include <stdatomic.h>
#include <stdint.h>

#if defined(_WIN32)
#define WIN32_LEAN_AND_MEAN
#include <windows.h>
/* Words of 16-bit compilers, which windows.h empties for everybody that it is read by. */
#undef near
#undef far
#else
#include <pthread.h>
#endif

typedef struct {
    void (*work)(void *argument);
    void *argument;
#if defined(_WIN32)
    HANDLE handle;
#else
    pthread_t handle;
#endif
} sslm_system_thread;

/* Where sleepers wait. Linux keeps them by the word's address and needs nothing here. */
typedef struct {
#if defined(__linux__)
    char unused;
#elif defined(_WIN32)
    SRWLOCK lock;
    CONDITION_VARIABLE changed;
#else
    pthread_mutex_t lock;
    pthread_cond_t changed;
#endif
} sslm_sleepers;

/* 0, or a negative number if the system refuses. */
int32_t sslm_sleepers_init(sslm_sleepers *sleepers);
void sslm_sleepers_destroy(sslm_sleepers *sleepers);

/* Sleep while *word == value, or less. */
void sslm_sleep_on(sslm_sleepers *sleepers, _Atomic uint32_t *word, uint32_t value);

/* Wake whoever sleeps on a word that has just been changed. */
void sslm_wake(sslm_sleepers *sleepers, _Atomic uint32_t *word);

/* Start a thread that calls work(argument) and takes no signals: those are the host's. The struct stays where
 * it is until the thread is joined. 0, or a negative number if the system refuses. */
int32_t sslm_system_thread_start(sslm_system_thread *thread, void (*work)(void *argument), void *argument);
void sslm_system_thread_join(sslm_system_thread *thread);

#endif
