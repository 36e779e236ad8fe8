# Build with the C compiler of the PyPI package ziglang, for this machine or another.
#
# SSLM_ZIG is the program zig; SSLM_ZIG_TARGET names the machine as zig does: aarch64-linux-gnu.2.17.
set(CMAKE_TRY_COMPILE_PLATFORM_VARIABLES SSLM_ZIG SSLM_ZIG_TARGET)

string(REGEX MATCH "^[a-z0-9_]+" CMAKE_SYSTEM_PROCESSOR "${SSLM_ZIG_TARGET}")
if(SSLM_ZIG_TARGET MATCHES "-linux-")
  set(CMAKE_SYSTEM_NAME Linux)
elseif(SSLM_ZIG_TARGET MATCHES "-windows-")
  set(CMAKE_SYSTEM_NAME Windows)
elseif(SSLM_ZIG_TARGET MATCHES "-macos")
  set(CMAKE_SYSTEM_NAME Darwin)
else()
  message(FATAL_ERROR "SSLM_ZIG_TARGET is \"${SSLM_ZIG_TARGET}\", expected something like x86_64-linux-gnu.2.17")
endif()

set(CMAKE_C_COMPILER "${SSLM_ZIG};cc")
# Left alone, zig compiles for the very CPU that it runs on, adds debugging symbols with the paths of
# this machine, and traps what its sanitizer dislikes.
set(CMAKE_C_FLAGS_INIT "-target ${SSLM_ZIG_TARGET} -mcpu=baseline -g0 -fno-sanitize=undefined")
set(CMAKE_SHARED_LINKER_FLAGS_INIT "-s")
