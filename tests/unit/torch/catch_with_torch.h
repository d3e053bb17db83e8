// LibTorch and Catch2 together: LibTorch may bring glog, whose CHECK() ends the process and would
// take the place of Catch2's.
#pragma once

#include <hvd/torch.h>

#undef CHECK

#include <catch2/catch.hpp>
