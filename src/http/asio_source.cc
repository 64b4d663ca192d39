// The one translation unit with the bodies of Boost.Asio.
#include "http/asio.h"
// After the settings of asio.h.
#include <boost/asio/impl/src.hpp>
