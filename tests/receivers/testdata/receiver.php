<?php
// Keeps each POSTed body with a NUL behind it in the file BODIES.
file_put_contents(getenv('BODIES'), file_get_contents('php://input') . "\0", FILE_APPEND);
