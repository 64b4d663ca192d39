# Writes OUTPUT, a C++ source with the bytes of INPUT behind remontoir::FUNCTION(), declared in HEADER.
# cmake -DINPUT=... -DOUTPUT=... -DFUNCTION=... -DHEADER=... -P EmbedFile.cmake
file(READ "${INPUT}" hex HEX)
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "((0x..,)(0x..,)(0x..,)(0x..,)(0x..,)(0x..,)(0x..,)(0x..,))" "\\1\n" bytes "${bytes}")
file(WRITE "${OUTPUT}" "// Made by the build from a data file.
#include \"${HEADER}\"

namespace remontoir {
namespace {

constexpr unsigned char kBytes[] = {
${bytes}};

}  // namespace

std::span<const std::byte> ${FUNCTION}() { return std::as_bytes(std::span(kBytes)); }

}  // namespace remontoir
")
