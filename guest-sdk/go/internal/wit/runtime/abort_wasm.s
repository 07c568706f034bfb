#include "textflag.h"

TEXT ·abort(SB), NOSPLIT, $0
	UNDEF
	RET
