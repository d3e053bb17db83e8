// A check whether the name of an output promises another format than it will have. No LibTorch in
// here.
#pragma once

#include <string>
#include <vector>

namespace hvdrun {

// In small letters, without the dot; empty where the name has none.
std::string extension_of(const std::string& path);

// A format of the files that `train` writes: its name, its extensions, and those that promise
// something else. Any other name is the user's own choice.
struct FileFormat {
  const char* content;
  const char* name_it;  // ".svg"
  std::vector<std::string> others;
};
const FileFormat& plot_format();
const FileFormat& report_format();
const FileFormat& metrics_format();

// The fault of the name, from "writes" on; empty: nothing.
std::string other_format(const FileFormat& format, const std::string& path);

}  // namespace hvdrun
