/* Include <weft.h>. This header is for programs that include all headers as <weft/x.h>. */
#include <weft.h>
