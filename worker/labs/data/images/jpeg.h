// JPEG by libjpeg. Only image.cpp includes this.
#pragma once

#include "worker/labs/data/images/image.h"

namespace hvdrun {

bool decode_jpeg(std::string_view bytes, const DecodeOptions& options, DecodedPart& part,
                 std::string& error);
std::optional<ImageSize> jpeg_size(std::string_view bytes, std::string& error);

}  // namespace hvdrun
