/* Threads and sleep on Linux, on Windows, and on other systems with POSIX threads. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "system_threads.h"

#if defined(__linux__)
#include <limits.h>
#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif
#if !defined(_WIN32)
#include <signal.h>
#endif

#if defined(__linux__)
int32_t sslm_sleepers_init(sslm_sleepers *sleepers)
{
    sleepers->unused = 0;
    return 0;
}

void sslm_sleepers_destroy(sslm_sleepers *sleepers)
{
    (void)sleepers;
}

void sslm_sleep_on(sslm_sleepers *sleepers, _Atomic uint32_t *word, uint32_t value)
{
    (void)sleepers;
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

void sslm_wake(sslm_sleepers *sleepers, _Atomic uint32_t *word)
{
    (void)sleepers;
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
#elif defined(_WIN32)
int32_t sslm_sleepers_init(sslm_sleepers *sleepers)
{
    InitializeSRWLock(&sleepers->lock);
    InitializeConditionVariable(&sleepers->changed);
    return 0;
}

void sslm_sleepers_destroy(sslm_sleepers *sleepers)
{
    (void)sleepers;
}

/* The word is looked at under the lock, which its waker takes after changing it: no change is missed. */
void sslm_sleep_on(sslm_sleepers *sleepers, _Atomic uint32_t *word, uint32_t value)
{
    AcquireSRWLockExclusive(&sleepers->lock);
    if (atomic_load(word) == value) SleepConditionVariableSRW(&sleepers->changed, &sleepers->lock, INFINITE, 0);
    ReleaseSRWLockExclusive(&sleepers->lock);
}

void sslm_wake(sslm_sleepers *sleepers, _Atomic uint32_t *word)
{
    (void)word;
    AcquireSRWLockExclusive(&sleepers->lock);
    WakeAllConditionVariable(&sleepers->changed);
    ReleaseSRWLockExclusive(&sleepers->lock);
}
#else
int32_t sslm_sleepers_init(sslm_sleepers *sleepers)
{
    if (pthread_mutex_init(&sleepers->lock, NULL) != 0) return -1;
    if (pthread_cond_init(&sleepers->changed, NULL) == 0) return 0;
    pthread_mutex_destroy(&sleepers->lock);
    return -1;
}

void sslm_sleepers_destroy(sslm_sleepers *sleepers)
{
    pthread_cond_destroy(&sleepers->changed);
    pthread_mutex_destroy(&sleepers->lock);
}

/* The word is looked at under the lock, which its waker takes after changing it: no change is missed. */
void sslm_sleep_on(sslm_sleepers *sleepers, _Atomic uint32_t *word, uint32_t value)
{
    pthread_mutex_lock(&sleepers->lock);
    if (atomic_load(word) == value) pthread_cond_wait(&sleepers->changed, &sleepers->lock);
    pthread_mutex_unlock(&sleepers->lock);
}

void sslm_wake(sslm_sleepers *sleepers, _Atomic uint32_t *word)
{
    (void)word;
    pthread_mutex_lock(&sleepers->lock);
    pthread_cond_broadcast(&sleepers->changed);
    pthread_mutex_unlock(&sleepers->lock);
}
#endif

#if defined(_WIN32)
static DWORD WINAPI enter(LPVOID argument)
{
    const sslm_system_thread *thread = argument;
    thread->work(thread->argument);
    return 0;
}

int32_t sslm_system_thread_start(sslm_system_thread *thread, void (*work)(void *argument), void *argument)
{
    thread->work = work;
    thread->argument = argument;
    thread->handle = CreateThread(NULL, 0, enter, thread, 0, NULL);
    return thread->handle == NULL ? -1 : 0;
}

void sslm_system_thread_join(sslm_system_thread *thread)
{
    WaitForSingleObject(thread->handle, INFINITE);
    CloseHandle(thread->handle);
}
#else
static void *enter(void *argument)
{
    const sslm_system_thread *thread = argument;
    thread->work(thread->argument);
    return NULL;
}

int32_t sslm_system_thread_start(sslm_system_thread *thread, void (*work)(void *argument), void *argument)
{
    sigset_t all, before;
    sigfillset(&all);
    thread->work = work;
    thread->argument = argument;
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failure = pthread_create(&thread->handle, NULL, enter, thread);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failure == 0 ? 0 : -1;
}

void sslm_system_thread_join(sslm_system_thread *thread)
{
    pthread_join(thread->handle, NULL);
}
#endif
