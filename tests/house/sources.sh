# shellcheck shell=sh
# Sourced: source_files ROOT prints the tree's C, C++, CUDA and script files, one a line, relative to ROOT.
source_files() {
    (cd "$1" && for room in harness engine faults kernels golden probes tests; do
        [ ! -d "$room" ] || find "$room" -path tests/data -prune -o -type f \( -name '*.c' -o -name '*.h' \
            -o -name '*.cu' -o -name '*.cpp' -o -name '*.cuh' -o -name '*.sh' -o -name '*.py' -o -name CMakeLists.txt \) -print
    done | sort)
}
c_files() { source_files "$1" | grep -E '\.(c|h|cu|cuh|cpp)$'; }
