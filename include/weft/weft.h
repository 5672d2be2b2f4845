/* The same as <weft.h>, for those who prefer one folder for all includes. */
#include <weft.h>
