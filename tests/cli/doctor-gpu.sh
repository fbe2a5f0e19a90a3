# A driver of our own tells doctor of devices that are not here: what it says of each state, on any machine.
command -v gcc > /dev/null || { echo "gcc is missing"; exit 77; }
cat > driver.c << 'EOF'
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
static int number(const char *name) { const char *v = getenv(name); return v ? atoi(v) : 0; }
int cuDriverGetVersion(int *v) { *v = number("FAKE_VERSION"); return 0; }
int cuInit(unsigned flags) { return flags ? 1 : number("FAKE_INIT"); }
int cuDeviceGetCount(int *n) { *n = number("FAKE_DEVICES"); return 0; }
int cuDeviceGet(int *device, int ordinal) { *device = 100 + ordinal; return 0; }
int cuDeviceGetName(char *name, int size, int device) { snprintf(name, size, "Fake %d", device); return 0; }
int cuDeviceGetAttribute(int *v, int attribute, int device) { *v = attribute == 75 ? number("FAKE_SM") / 10 : number("FAKE_SM") % 10; return device < 100; }
int cuDeviceTotalMem_v2(size_t *bytes, int device) { *bytes = (size_t)80 << 30; return device < 100; }
int cuGetErrorName(int code, const char **name) { *name = code == 100 ? "CUDA_ERROR_NO_DEVICE" : NULL; return 0; }
EOF
gcc -shared -fPIC -o libcuda.so.1 driver.c
export LD_LIBRARY_PATH=$PWD
doctor() { "$INQUEST" doctor --optional | grep -E ' (CUDA driver|GPU)  '; }
export FAKE_VERSION=99020 FAKE_SM=90 FAKE_DEVICES=2
doctor
FAKE_DEVICES=0 doctor
FAKE_INIT=100 doctor
FAKE_INIT=77 doctor
FAKE_SM=75 FAKE_DEVICES=1 doctor
FAKE_DEVICES=99 doctor
# What a build without kernels for GPUs asks of no driver.
FAKE_VERSION=1000 doctor > old
case $("$INQUEST" doctor --optional | grep 'CUDA toolkit') in
    *"this build has kernels"*) grep '^missing *CUDA driver *for CUDA up to 1.0 only, .*newer driver' old ;;
    *) grep '^found *CUDA driver *for CUDA up to 1.0$' old ;;
esac > /dev/null
printf 'int unrelated;\n' > driver.c
gcc -shared -fPIC -o libcuda.so.1 driver.c
doctor
