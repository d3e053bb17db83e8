// The LibTorch programs of tests: one binary, because each would read LibTorch's headers again.
// Each is a namespace of its own, for several files can be one translation unit.
#pragma once

#include <string>
#include <vector>

namespace hvdrun::test {

using Arguments = std::vector<std::string>;

// Each returns the exit code of the rank; its file says what it takes.
namespace async_probe {
int run(const Arguments& arguments);
}
namespace combination_probe {
int run(const Arguments& arguments);
}
namespace edge_probe {
int run(const Arguments& arguments);
}
namespace elastic_probe {
int run(const Arguments& arguments);
}
namespace gradient_probe {
int run(const Arguments& arguments);
}
namespace kill_probe {
int run(const Arguments& arguments);
}
namespace mismatch_probe {
int run(const Arguments& arguments);
}
namespace options_probe {
int run(const Arguments& arguments);
}
namespace set_probe {
int run(const Arguments& arguments);
}
namespace tensors_probe {
int run(const Arguments& arguments);
}

}  // namespace hvdrun::test
