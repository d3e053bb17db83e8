// The folder that the ranks start in, as the user names it: on another host the same name may lead
// elsewhere, over a link of that host's own.
#pragma once

#include <string>

#include "common/base/environment.h"

namespace hvdrun {

// Where this process is: `pwd` (the value of PWD, nullptr: unset) where that is a name of the
// folder that a shell may have given, else where it lies. Empty: it was removed.
std::string working_folder(const char* pwd);

// Where this process is, without symbolic links. Empty: it was removed.
std::string plain_working_folder();

// The ranks' folder: `asked` (--chdir, empty: `here`), from `here` on. Throws UsageError where
// `here` is needed and empty.
std::string folder_of_ranks(const std::string& here, const std::string& asked);

// PWD names the folder that the ranks start in, or is not there: not another's, if it was there at
// all.
void name_folder(Environment& env, const std::string& folder);

}  // namespace hvdrun
