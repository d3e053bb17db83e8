// PNG by libpng. Only image.cpp includes this.
#pragma once

#include "worker/labs/data/images/image.h"

namespace hvdrun {

bool decode_png(std::string_view bytes, DecodedPart& part, std::string& error);
std::optional<ImageSize> png_size(std::string_view bytes, std::string& error);

}  // namespace hvdrun
