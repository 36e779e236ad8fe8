/* CPU features, read once per call: plans are opened rarely. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "cpu.h"

#include "sslm_native.h"

#if defined(SSLM_X86) && defined(__linux__)
#include <sys/syscall.h>
#include <unistd.h>

/* Of Linux 5.16, which the headers of old systems lack. */
#define ASK_FOR_STATE 0x1023
#define TILE_DATA 18

/* Whether the system lets this process use tiles. Linux wants to be asked once, since they make the frames of
 * signals larger: it refuses while a thread has an alternate stack that is too small for them, and no such stack can
 * be set up afterwards. Threads and forks inherit the answer, and asking again changes nothing. */
static int32_t may_use_tiles(void)
{
    return syscall(SYS_arch_prctl, ASK_FOR_STATE, TILE_DATA) == 0;
}
#else
static int32_t may_use_tiles(void)
{
    return 0;
}
#endif

#ifdef SSLM_X86
#include <cpuid.h>

#define BIT(value, index) (((value) >> (index)) & 1u)

/* Which register states the operating system saves: without it wide registers lose their contents. */
static uint32_t saved_registers(void)
{
    uint32_t low, high;
    __asm__ volatile("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return low;
}

uint32_t sslm_cpu_features(void)
{
    uint32_t eax, ebx, ecx, edx, features = 0;
    if (!__get_cpuid(1, &eax, &ebx, &ecx, &edx)) return 0;
    uint32_t has_xgetbv = BIT(ecx, 27);
    uint32_t has_ssse3_and_sse41 = BIT(ecx, 9) & BIT(ecx, 19);
    uint32_t saved = has_xgetbv ? saved_registers() : 0;
    if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx)) return 0;
    uint32_t subleaf_count = eax, has_tiles_of_bytes = BIT(edx, 24) & BIT(edx, 25);
    if (BIT(ebx, 29) & has_ssse3_and_sse41) features |= SSLM_CPU_SHA;
    if ((saved & 0x06) == 0x06 && BIT(ebx, 5)) features |= SSLM_CPU_AVX2;
    if ((saved & 0xe6) == 0xe6 && (BIT(ebx, 16) & BIT(ebx, 17) & BIT(ebx, 30) & BIT(ebx, 31))) {
        features |= SSLM_CPU_AVX512;
        if (BIT(ecx, 11)) features |= SSLM_CPU_AVX512VNNI;
    }
    if ((saved & 0x60000) == 0x60000 && has_tiles_of_bytes) features |= SSLM_CPU_AMX;
    if ((saved & 0x06) == 0x06 && subleaf_count >= 1) {
        __get_cpuid_count(7, 1, &eax, &ebx, &ecx, &edx);
        if (BIT(eax, 4)) features |= SSLM_CPU_AVXVNNI;
    }
    return features;
}
#elif defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>

/* HWCAP_SHA2 and HWCAP_ASIMDDP, of which the headers of old systems lack the second. */
#define HAS_SHA2 (1ul << 6)
#define HAS_DOTPROD (1ul << 20)

uint32_t sslm_cpu_features(void)
{
    unsigned long found = getauxval(AT_HWCAP);
    return (found & HAS_SHA2 ? SSLM_CPU_SHA : 0) | (found & HAS_DOTPROD ? SSLM_CPU_DOTPROD : 0);
}
#elif defined(__aarch64__) && defined(__APPLE__)
#include <sys/types.h>

#include <sys/sysctl.h>

static int has_feature(const char *name)
{
    int value = 0;
    size_t size = sizeof value;
    return sysctlbyname(name, &value, &size, NULL, 0) == 0 && value != 0;
}

uint32_t sslm_cpu_features(void)
{
    return (has_feature("hw.optional.arm.FEAT_SHA256") ? SSLM_CPU_SHA : 0)
           | (has_feature("hw.optional.arm.FEAT_DotProd") ? SSLM_CPU_DOTPROD : 0);
}
#else
uint32_t sslm_cpu_features(void)
{
    return 0;
}
#endif

int32_t sslm_tier_runs(int32_t tier, uint32_t features)
{
    uint32_t needed;
    switch (tier) {
    case SSLM_TIER_SCALAR:
        return 1;
    case SSLM_TIER_AVX2:
        needed = SSLM_CPU_AVX2;
        break;
    case SSLM_TIER_AVXVNNI:
        needed = SSLM_CPU_AVX2 | SSLM_CPU_AVXVNNI;
        break;
    case SSLM_TIER_AVX512VNNI:
        needed = SSLM_CPU_AVX2 | SSLM_CPU_AVX512 | SSLM_CPU_AVX512VNNI;
        break;
    case SSLM_TIER_AMX:
        needed = SSLM_CPU_AVX2 | SSLM_CPU_AVX512 | SSLM_CPU_AVX512VNNI | SSLM_CPU_AMX;
        /* Asked for this tier alone, so that a host can do without the larger frames by forcing another one. */
        return (features & needed) == needed && may_use_tiles();
    case SSLM_TIER_NEON:
        needed = SSLM_CPU_DOTPROD;
        break;
    default:
        return 0;
    }
    return (features & needed) == needed;
}
