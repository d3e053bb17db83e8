#!/bin/sh
# Makes the shell that hvdrun has got on another host its guard: finds this very hvd-agent there or
# takes it from stdin, and becomes it. Says on stdout where it stands (RemoteStart listens).
#   start_agent.sh SIZE SHA256     of the agent: its bytes, and 64 hexadecimal digits
#
# cli/meson.build puts it into hvdrun as one line, which goes in single quotes to whatever login shell
# the user has. So nothing but a comment may have a quote, a backslash or an exclamation mark. A
# comment has lines of its own. The lines are joined by a space: a command ends with a semicolon.
size=$1;
sha256=$2;

# All that is made here is the user's alone. The ranks inherit the agent's umask, and theirs is the
# login's.
mask=$(umask);
umask 077;

# Hosts may share a home: a file that another one with the same process number still writes would be
# "text file busy" here.
node=$(uname -n 2>/dev/null).$$;

temporary=;
file=;
clean() { [ -z "$file" ] || rm -f "$file"; [ -z "$temporary" ] || rm -rf "$temporary"; };
trap clean EXIT;
trap "exit 93" HUP INT PIPE TERM;

# Others can put nothing there: the folder is not for everybody to write to.
closed() { case $(ls -ldL "$1/" 2>/dev/null) in d???????w*|"") return 1;; esac; };

# The agent is kept in the user's own cache folder only. Where others could put a folder of that name,
# or a link, a check by path proves nothing: they may change what the path means after it. There, and
# where the cache has no room, it goes into a new folder of /tmp, which the guard removes as it
# starts. Nor is a folder taken without room for the agent, or from which nothing may be executed. The
# room is taken before the agent is asked for, because it comes only once.
cache=${XDG_CACHE_HOME:-$HOME/.cache};
found=;
for kind in cache tmp; do
  if [ $kind = cache ]; then
    folder=$cache/hvdrun;
    if mkdir -p "$folder" 2>/dev/null && [ -O "$cache" ] && [ -O "$folder" ] &&
      closed "${cache%/*}" && closed "$cache" && closed "$folder"; then :; else continue; fi;
  else
    folder=$(mktemp -d "${TMPDIR:-/tmp}/hvdrun.XXXXXX" 2>/dev/null) || break;
    temporary=$folder;
  fi;
  # The first half of the hash is name enough.
  agent=$folder/agent-${sha256%????????????????????????????????};
  file=$agent.$node;
  if [ -w "$folder" ] && { [ -x "$agent" ] ||
    { head -c "$size" /dev/zero >"$file" && chmod 700 "$file" && [ -x "$file" ]; } 2>/dev/null; }; then
    found=1;
    break;
  fi;
  rm -f "$file";
done;
if [ -z "$found" ]; then
  echo "neither ~/.cache nor /tmp there can be written and has room for hvd-agent ($(( (size + 999999) / 1000000 )) MB)" >&2;
  exit 93;
fi;

intact() { echo "$sha256  $1" | sha256sum -c >/dev/null 2>&1; };

# An agent that is there has a name of this launch's own from before it is checked until it runs.
# Another launch may remove those that nobody has used for long (worker/agent/kept_agent.h). Where
# there are no hard links it does without.
program=$agent;
linked=;
if [ -x "$agent" ] &&
  { if ln -f "$agent" "$file" 2>/dev/null; then program=$file; linked=1; fi; } &&
  intact "$program"; then
  [ -n "$linked" ] || rm -f "$file";
  echo hvdrun: have;
else
  [ -z "$linked" ] || rm -f "$file";
  program=$agent;
  echo hvdrun: need;
  if head -c "$size" 1<>"$file" && intact "$file" && chmod 700 "$file" && mv -f "$file" "$agent"; then :; else
    echo hvdrun: bad;
    echo "hvd-agent could not be stored in $folder (disk full, or no sha256sum)" >&2;
    exit 93;
  fi;
fi;
umask "$mask";
echo hvdrun: start;
exec "$program" guard ${temporary:+temporary}
