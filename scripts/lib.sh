# Shared by the scripts of this folder, which source it: paths, steps with their seconds, options of
# a build folder, how many compilers fit into the memory.
# shellcheck shell=bash

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)

# Debian's own meson and python, whatever stands earlier in PATH: a meson of another Python does not
# see Debian's modules.
meson=$(test -x /usr/bin/meson && echo /usr/bin/meson || echo meson)
python3=$(test -x /usr/bin/python3 && echo /usr/bin/python3 || echo python3)
unset PYTHONHOME PYTHONPATH

say() { printf '== %s\n' "$*"; }

die() {
  printf '%s: %s\n' "${0##*/}" "$1" >&2
  exit "${2:-1}"
}

# A path of this repository as the user would type it: relative when that is possible.
shown() {
  local path=$1
  [[ $path == "$PWD"/* ]] && path=${path#"$PWD"/}
  printf '%s' "$path"
}

# step NAME COMMAND...: runs the command and remembers its seconds under NAME.
step_names=()
step_seconds=()
step() {
  local name=$1 begin=$SECONDS
  shift
  say "$name"
  "$@"
  step_names+=("$name")
  step_seconds+=($((SECONDS - begin)))
}

# "packages 31 s, build 95 s, training 20 s; the build took the most"
report_steps() {
  local i line='' most=0
  for i in "${!step_names[@]}"; do
    line+="${line:+, }${step_names[i]} ${step_seconds[i]} s"
    ((step_seconds[i] > step_seconds[most])) && most=$i
  done
  say "$line; most of it: ${step_names[most]}"
}

# nproc alone takes OMP_NUM_THREADS for the number of cores.
usable_cores() { env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc; }

# Parallel compilers: one per usable core, as long as each finds MIB MiB of free memory.
compile_jobs() {
  local mib=$1 cores free limit used
  cores=$(usable_cores)
  free=$(awk '/^MemAvailable:/ {print int($2 / 1024)}' /proc/meminfo)
  limit=$(cat /sys/fs/cgroup/memory.max 2>/dev/null || true)
  if [[ $limit =~ ^[0-9]+$ ]]; then
    used=$(cat /sys/fs/cgroup/memory.current 2>/dev/null || echo 0)
    ((free > (limit - used) >> 20)) && free=$(((limit - used) >> 20))
  fi
  local jobs=$((free / mib))
  ((jobs > cores)) && jobs=$cores
  ((jobs < 1)) && jobs=1
  echo "$jobs"
}

# The value of an option of a configured build folder; nothing when there is none.
build_option() {
  local file=$1/meson-info/intro-buildoptions.json
  [[ -f $file ]] || return 0
  "$python3" - "$file" "$2" <<'PY'
import json, sys
for option in json.load(open(sys.argv[1])):
    if option["name"] == sys.argv[2]:
        print(str(option["value"]).lower())
PY
}

# configure DIR OPTION=VALUE...: a new build folder, or other values in an old one. A new one is a
# unity build unless an option says otherwise: most of the time goes into the headers of LibTorch,
# Asio and fmt, and several sources at once read them once. Who changes code often configures the
# folder without it (meson setup build); it stays as it is.
configure() {
  local dir=$1 pair changed=()
  shift
  if [[ ! -f $dir/build.ninja ]]; then
    [[ -f $dir/meson-private/coredata.dat ]] && rm -rf "$dir/meson-private"  # an attempt that failed
    "$meson" setup -Dunity=on -Dunity_size=12 "${@/#/-D}" "$dir" "$root"
    return
  fi
  for pair in "$@"; do
    [[ $(build_option "$dir" "${pair%%=*}") == "${pair#*=}" ]] || changed+=("-D$pair")
  done
  if ((${#changed[@]})); then
    "$meson" setup --reconfigure "${changed[@]}" "$dir" "$root"
  fi
}

# build DIR [TARGET...]: as many compilers at once as fit. A source that includes torch.h takes 1.3 GB,
# several of them as one 2 GB.
build() {
  local dir=$1 mib=800
  shift
  [[ $(build_option "$dir" torch) == disabled ]] || mib=2000
  # Targets that a newer meson.build has are known only after this.
  ninja -C "$dir" build.ninja >/dev/null
  "$meson" compile -C "$dir" -j "$(compile_jobs "$mib")" "$@"
}
