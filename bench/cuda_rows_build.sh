#!/bin/sh
# Builds the CUDA backend with its kernels of one architecture, and bench/cuda_rows.c, into FOLDER/cuda_rows.so:
# bench/cuda_rows_build.sh FOLDER ARCHITECTURE [JOBS [ROWS [FLAGS of nvcc]]]; ROWS: a pattern of grep -E on their names
# SPDX-License-Identifier: Apache-2.0
set -eu
cd "$(dirname "$0")/.."

folder=$1
architecture=$2 # as in kernels.def: sm_80, sm_90a
jobs=${3:-$(nproc)}
pattern=${4:-.}
export NVCC_FLAGS="${5:-}"
cuda=${CUDA_HOME:-/usr/local/cuda}
mkdir -p "$folder"

# The rows of the architecture stay, with their storage, and the one that merges splits; the table of the build is made
# of them alone.
grep -E "^ATTUNE_ROW\((sm80_merge,|[a-z0-9_]*($pattern).* $architecture, )" backends/cuda/kernels.def \
    >"$folder/kernels.def"
sed 's/^ATTUNE_ROW(\([a-z0-9_]*\),.* \([a-z0-9]*\))$/\1 \2/' "$folder/kernels.def" >"$folder/rows"

cat >"$folder/compile" <<'SCRIPT'
#!/bin/sh
set -eu
number=${2#sm_}
folder=backends/cuda/${4%%_*}
# As in backends/cuda/meson.build: sm90_forward_f16_d64 is compiled from sm90/fwd.cu.
case $4 in
*_forward*) source=$folder/fwd.cu ;;
*_backward*) source=$folder/bwd.cu ;;
*) source=$folder/${4#*_}.cu ;;
esac
"$1/bin/nvcc" -std=c++17 -O3 -fatbin -gencode="arch=compute_$number,code=sm_$number" -Xptxas -v -I. -Iinclude \
    $NVCC_FLAGS -DATTUNE_SYMBOL="attune_$4" -DATTUNE_STORAGE="$5" "$source" -o "$3/$4.fatbin" 2>"$3/$4.log" || {
    cat "$3/$4.log" >&2
    exit 1
}
# Each of these says that wgmma was serialised or a hint of ours ignored: right results at a fraction of the speed. One
# register of a warpgroup may spill, where a row declares it.
if grep -E 'C75[0-9][0-9]|bytes spill' "$3/$4.log" | grep -v ' [0-4] bytes spill stores, [0-4] bytes spill loads'; then
    echo "$4: see the compiler's messages above" >&2
    exit 1
fi
cat >"$3/$4.S" <<IMAGE
.section .rodata
.balign 64
.globl attune_cuda_image_$4
attune_cuda_image_$4:
.incbin "$3/$4.fatbin"
.section .note.GNU-stack,"",@progbits
IMAGE
SCRIPT
chmod +x "$folder/compile"
xargs -P "$jobs" -L 1 "$folder/compile" "$cuda" "$architecture" "$folder" <"$folder/rows"

# kernels.def is found in the folder first.
mkdir -p "$folder/include/backends/cuda"
cp "$folder/kernels.def" "$folder/include/backends/cuda/kernels.def"
${CC:-gcc} -std=c11 -O2 -Wall -Wextra -Werror -shared -fPIC -D_GNU_SOURCE -DATTUNE_BACKEND_QUERY=attune_cuda_backend_query \
    -I"$folder/include" -I. -Iinclude -I"$cuda/include" bench/cuda_rows.c backends/cuda/*.c backends/cuda/sm*/*.c \
    $(sed 's|\(.*\) .*|'"$folder"'/\1.S|' "$folder/rows") -o "$folder/cuda_rows.so" -ldl -lpthread -lm
