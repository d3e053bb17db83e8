// A rank's stdin, stdout and stderr, and the agent's ends of them.
#pragma once

#include <system_error>

#include "common/base/unique_fd.h"

namespace hvdrun {

struct WorkerPipes {
  // stdin is /dev/null unless the rank gets input. On a fault what was opened stays until
  // destruction.
  std::error_code open(bool has_input);

  UniqueFd in_read;
  UniqueFd in_write;  // none for /dev/null
  UniqueFd out_read;
  UniqueFd out_write;
  UniqueFd err_read;
  UniqueFd err_write;
};

}  // namespace hvdrun
