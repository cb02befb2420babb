<!-- face2face.php -->
<?php
echo "<B>Hello!</B>"
?>
